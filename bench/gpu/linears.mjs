// node bench/gpu/linears.mjs [--rows 17,64,256] [--only down,head] [--families "as it is"]
//                            [--limit 120] [--scale 1] [--json FILE]
//
// The linears of Llama-3.1-8B in bf16, by every way that there is: the kernels that stream weights
// for few rows (native/cuda/linear-stream.cu, the older linear-few.cu), those in tiles for tens to
// hundreds (native/cuda/linear-tiles.cu) and other ways of these (kernel-variants.mjs), and
// cuBLASLt with its way chosen by timing. Microseconds, the share of the ceiling that was measured
// in this run (the larger of bytes by copy bandwidth and operations by product speed), and
// ‖out - ref‖ / ‖ref‖ beside cuBLASLt's; medians of a graph of launches that take turns on matrices
// of 512 MiB together, more than the second cache holds. gate/up is with its activation.
//
// Each family of ways runs in a process of its own (linears-family.mjs): one that faults or hangs
// says so, and the others go on. --scale divides all sizes, for an emulated GPU.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { requireBuild, writeJson } from "./gpu-bench.mjs";
import { killAll, runLimited } from "./limited-child.mjs";

await requireBuild();
const { tilesVariants } = await import("./kernel-variants.mjs");

const { values: flags } = parseArgs({
  options: {
    rows: { type: "string", default: "17,24,32,48,64,96,128,192,256,384,512" },
    only: { type: "string", default: "qkv,o,gate/up,down,head" },
    families: { type: "string" },
    limit: { type: "string", default: "120" },
    scale: { type: "string", default: "1" },
    json: { type: "string" },
  },
});
const families = flags.families?.split(",") ?? ["others", ...Object.keys(tilesVariants)];
const rowCounts = flags.rows.split(",").map(Number);
const names = flags.only.split(",");
const script = fileURLToPath(new URL("linears-family.mjs", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "perigee-linears-"));

/** What a child wrote: lines of JSON are results, others are what it has to say. */
function linesOf(file) {
  const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
  const isResult = (line) => line.startsWith("{");
  return {
    results: lines.filter(isResult).map((line) => JSON.parse(line)),
    words: lines.filter((line) => !isResult(line)),
  };
}

async function runFamily(family, ceilings) {
  const file = join(folder, "output");
  const words = ["--family", family, "--rows", flags.rows, "--only", flags.only];
  const known = ceilings === null ? [] : ["--ceilings", JSON.stringify(ceilings)];
  const command = [process.execPath, script, ...words, "--scale", flags.scale, ...known];
  const { state, rc, seconds } = await runLimited(command, {
    ...{ cwd: process.cwd(), file, limitSeconds: Number(flags.limit) },
  });
  const { results, words: said } = linesOf(file);
  const isGood = state === "ended" && rc === 0;
  const end = isGood ? "done" : `FAILED (${state}, ${rc}) after ${results.length} results`;
  console.log(`${family}: ${end} in ${seconds.toFixed(0)} s`);
  for (const line of isGood ? said : said.slice(-12)) console.log(`  ${line}`);
  return results;
}

/** Times of an emulated GPU are no numbers. */
const text = (number, digits) => (number ?? Number.NaN).toFixed(digits);

const cellText = ({ us, share, error }) => {
  const errorText = error === null ? "" : ` ${error.toExponential(0)}`;
  return `${text(us, 1)} us ${text(share && share * 100, 0)} %${errorText}`;
};

/** A line per matrix and count of rows: each way that there was. */
function print(results) {
  const ways = [...new Set(results.map(({ way }) => way))];
  const width = 24;
  console.log(`${" ".repeat(14)}${ways.map((way) => way.padEnd(width)).join("")}`);
  for (const name of names) {
    for (const rows of rowCounts) {
      const cells = ways.map((way) => {
        const found = results.find(
          (each) => each.name === name && each.rows === rows && each.way === way,
        );
        return (found === undefined ? "-" : cellText(found)).padEnd(width);
      });
      console.log(`${name.padEnd(8)}${String(rows).padStart(4)}  ${cells.join("")}`);
    }
  }
}

process.on("SIGINT", () => {
  killAll();
  process.exit(130);
});
const results = [];
let ceilings = null;
try {
  for (const family of families) {
    const found = await runFamily(family, ceilings);
    ceilings ??= found.find((each) => each.ceilings !== undefined)?.ceilings ?? null;
    results.push(...found.filter(({ way }) => way !== undefined));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
if (ceilings !== null) {
  console.log(
    `copy ${text(ceilings.copyGBs, 0)} GB/s, product ${text(ceilings.bf16TFLOPs, 0)} TFLOP/s`,
  );
}
print(results);
writeJson(flags.json, { ceilings, results });
