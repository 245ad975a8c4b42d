/**
 * npm run fuzz -- [--operations 1000000] [--seed 1]
 * npm run fuzz -- --checkpoints 100000 [--seed 1] [--from 0] [--jobs 1] [--sanitize]
 *
 * The random lives of test/fuzz/kv-cache.test.ts, for as long as wanted. Prints each life's shape
 * and seed; a seed that fails fails again.
 *
 * With --checkpoints: as many mutated model files of all kinds, loaded from the build (npm run
 * build) and, where they are accepted, run for a step. --sanitize loads a native library that
 * checks every address (GCC on Linux). Prints each failure with its mutant's number, then a line
 * with counts, seconds and the peak of memory.
 */
import { spawnSync } from "node:child_process";
import { readFlags } from "./flags.mjs";
import { fuzzCheckpoints } from "./fuzz/checkpoints.mjs";

const { values: flags } = readFlags({
  options: {
    operations: { type: "number", default: 1_000_000, min: 1 },
    checkpoints: { type: "number", default: 0 },
    from: { type: "number", default: 0 },
    jobs: { type: "number", default: 1, min: 1 },
    sanitize: { type: "boolean", default: false },
    seed: { type: "number", default: 1 },
  },
});

function fuzzCache() {
  const { status } = spawnSync(
    "npx",
    [
      ...["vitest", "run", "test/fuzz/kv-cache.test.ts", "--reporter", "verbose"],
      ...["--testTimeout", String(24 * 60 * 60 * 1000)],
    ],
    {
      stdio: "inherit",
      env: {
        ...process.env,
        PERIGEE_FUZZ_OPERATIONS: String(flags.operations),
        PERIGEE_FUZZ_SEED: String(flags.seed),
      },
    },
  );
  return status ?? 1;
}

async function fuzzFiles() {
  const { checkpoints: count, from, seed, sanitize, jobs } = flags;
  return (await fuzzCheckpoints({ count, from, seed, sanitize, jobs })) ? 0 : 1;
}

process.exit(flags.checkpoints > 0 ? await fuzzFiles() : fuzzCache());
