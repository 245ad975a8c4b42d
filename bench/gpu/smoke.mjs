// node bench/gpu/smoke.mjs [--only norm,embed] [--verbose]
//
// Runs every op of the cuda device beside its definition, on random inputs, with all new device
// memory poisoned. Needs a GPU and the build (npm run build); prints a row per op and exits 1 on a
// mismatch. Cases are in bench/gpu/cases/, a file per kind of op.
import { readdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { cudaFromEnvironment } from "../../dist/cli/cuda-environment.js";
import { CudaDevice } from "../../dist/devices/cuda/cuda-device.js";
import { Pair } from "./pair.mjs";

/** NaN in every float format, -1 in integers. */
const poison = 0xff;

const { values: flags } = parseArgs({
  options: { only: { type: "string" }, verbose: { type: "boolean" } },
});

/** The cases of all files, of the ops that were asked for. */
async function chosenCases() {
  const files = readdirSync(new URL("./cases/", import.meta.url)).sort();
  const modules = await Promise.all(files.map((file) => import(`./cases/${file}`)));
  const only = flags.only?.split(",") ?? null;
  return modules
    .flatMap((module) => [...module.cases()])
    .filter(({ op }) => only?.includes(op) ?? true);
}

/** What one case found; an exception is a failure like any other. */
async function judge(pair, { run }) {
  try {
    return await run(pair);
  } catch (error) {
    return [
      { error: Number.NaN, excess: Number.POSITIVE_INFINITY, detail: error.message, thrown: error },
    ];
  } finally {
    pair.release();
  }
}

const started = performance.now();
const device = await CudaDevice.open({
  settings: cudaFromEnvironment(),
  freshByte: poison,
  onProgress: ({ file, cached }) => {
    if (flags.verbose) console.log(`${cached ? "cached  " : "compiled"} ${file}`);
  },
  warn: (message) => console.warn(message),
});
console.log(`${device.description}; open in ${(performance.now() - started).toFixed(0)} ms`);

const pair = new Pair(device);
const rows = new Map();
const failures = [];
for (const each of await chosenCases()) {
  const verdicts = await judge(pair, each);
  const row = rows.get(each.op) ?? { checks: 0, failed: 0, worst: 0 };
  rows.set(each.op, row);
  for (const { error, excess, detail, thrown } of verdicts) {
    row.checks++;
    row.worst = Number.isNaN(error) ? Number.NaN : Math.max(row.worst, error);
    if (flags.verbose) console.log(`${each.op} ${each.name}: ${error.toExponential(2)}`);
    if (excess <= 0) continue;
    row.failed++;
    failures.push(`${each.op}, ${each.name}: ${detail}`);
    if (flags.verbose && thrown) console.log(thrown.stack);
    // A broken context fails every call from here on.
    if (thrown?.code === "DEVICE_FAILED") {
      console.log(failures.join("\n"));
      process.exit(1);
    }
  }
}

console.log("op            checks  failed  worst ‖out - ref‖ / ‖ref‖");
for (const [op, { checks, failed, worst }] of rows) {
  const count = (value, width) => String(value).padStart(width);
  console.log(`${op.padEnd(14)}${count(checks, 6)}${count(failed, 8)}  ${worst.toExponential(2)}`);
}
for (const failure of failures.slice(0, 40)) console.log(`FAILED ${failure}`);
console.log(failures.length === 0 ? "all good" : `${failures.length} failed`);
device.dispose();
process.exit(failures.length === 0 ? 0 : 1);
