import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sized } from "../support/full.ts";
import { type RecordedType, readAndRecorded } from "./recorded-blocks.ts";

const recorded: Readonly<Record<string, RecordedType>> = JSON.parse(
  readFileSync("test/fixtures/gguf/dequantize.json", "utf8"),
).types;

test("every quantised type that is read has a recording", () => {
  expect(Object.keys(recorded).sort()).toEqual(
    [
      ...["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"],
      ...["IQ4_NL", "IQ4_XS", "MXFP4"],
    ].sort(),
  );
});

test.each(Object.entries(recorded))(
  "%s gives the values of the gguf package bit by bit, also at the edges of its scales",
  (_name, type) => {
    const { read, recorded: wanted } = readAndRecorded(type);
    expect(wanted.length).toBeGreaterThan(300);
    expect(firstDifference(read, wanted)).toBeNull();
  },
);

const venv = spawnSync("test/peers/python-venv.sh", ["gguf", "gguf==0.19.0", "numpy==2.3.5"], {
  encoding: "utf8",
});
const missing = venv.status === 0 ? null : `skipped: ${venv.stderr.trim().split("\n").at(-1)}`;

test.skipIf(missing !== null)(
  `random bits give the values of the installed gguf package${missing === null ? "" : ` (${missing})`}`,
  () => {
    const count = sized(200, 5000);
    const python = join(venv.stdout.trim(), "bin/python");
    const words = ["-m", "training.recordings.gguf_types", String(count), "11"];
    const made = spawnSync(python, words, { encoding: "utf8", maxBuffer: 2 ** 30 });
    expect(made.stderr).toBe("");
    const types: Readonly<Record<string, RecordedType>> = JSON.parse(made.stdout).types;
    expect(Object.keys(types)).toHaveLength(13);
    for (const [name, type] of Object.entries(types)) {
      const { read, recorded: wanted } = readAndRecorded(type);
      expect(firstDifference(read, wanted), name).toBeNull();
    }
  },
);

/** Null: equal. One message instead of thousands of numbers. */
function firstDifference(read: Uint32Array, wanted: Uint32Array): string | null {
  if (read.length !== wanted.length) return `${read.length} values instead of ${wanted.length}`;
  const at = read.findIndex((bits, index) => bits !== wanted[index]);
  return at === -1 ? null : `value ${at}: ${read[at]?.toString(16)}, ${wanted[at]?.toString(16)}`;
}
