import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { findGgufTensorType } from "../../src/checkpoint/gguf-tensor-types.ts";
import { ggufWeight } from "../../src/checkpoint/gguf-weights.ts";
import { MemoryFile } from "./memory-file.ts";

interface Recorded {
  readonly blocks: string;
  readonly values: string;
}

const recorded: Readonly<Record<string, Recorded>> = JSON.parse(
  readFileSync("test/fixtures/gguf/dequantize.json", "utf8"),
).types;

const IDS = { Q4_0: 2, Q4_1: 3, Q5_0: 6, Q5_1: 7, Q8_0: 8, Q4_K: 12, Q5_K: 13, Q6_K: 14 } as const;

test.each(Object.entries(IDS))("%s gives the recorded values of random blocks", (name, id) => {
  const type = findGgufTensorType(id);
  if (type === null) throw new Error(`${name} is not read`);
  const { blocks = "", values = "" } = recorded[name] ?? {};
  const stored = Uint8Array.from(Buffer.from(blocks, "base64"));
  const wanted = new Float32Array(Uint8Array.from(Buffer.from(values, "base64")).buffer);
  const tensor = {
    name,
    type,
    shape: [2, wanted.length / 2],
    startBytes: 0,
    sizeBytes: stored.length,
  };
  const weight = ggufWeight(new MemoryFile(stored), tensor, {
    name: "w",
    layout: { kind: "plain" },
  });
  const got = new Float32Array(weight.bytes().slice().buffer);
  expect(got).toHaveLength(wanted.length);
  wanted.forEach((value, at) => {
    // The recording rounds to f32 between its steps.
    expect(Math.abs((got[at] ?? Number.NaN) - value)).toBeLessThanOrEqual(
      1e-6 * (1 + Math.abs(value)),
    );
  });
});
