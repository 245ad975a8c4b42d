/**
 * npm run fuzz -- [--operations 1000000] [--seed 1]
 *
 * The random lives of test/fuzz/kv-cache.test.ts, for as long as wanted. Prints each life's shape
 * and seed; a seed that fails fails again.
 */
import { spawnSync } from "node:child_process";
import { readFlags } from "./flags.mjs";

const { values: flags } = readFlags({
  options: {
    operations: { type: "number", default: 1_000_000, min: 1 },
    seed: { type: "number", default: 1 },
  },
});
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
process.exit(status ?? 1);
