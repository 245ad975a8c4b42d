/** Some of the mutants that `npm run fuzz -- --checkpoints N` makes, without sanitizers. */
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { built } from "../cli/perigee.ts";
import { sized } from "../support/full.ts";

/** More: PERIGEE_FUZZ_CHECKPOINTS=100000. */
const COUNT = Number(process.env.PERIGEE_FUZZ_CHECKPOINTS ?? sized(100, 300));

test.runIf(built)("mutated model files load and run, or are refused with a clear error", () => {
  const words = ["tools/fuzz.mjs", "--checkpoints", String(COUNT), "--seed", "7"];
  const output = execFileSync(process.execPath, words, { encoding: "utf8", stdio: "pipe" });
  expect(output).toMatch(/failures 0\n$/);
  const [, accepted, run] = /accepted (\d+), of these run (\d+)/.exec(output) ?? [];
  expect(Number(accepted)).toBeGreaterThan(COUNT / 4);
  expect(Number(run)).toBeGreaterThan(COUNT / 30);
});
