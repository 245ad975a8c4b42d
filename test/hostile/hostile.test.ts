import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { caseAt } from "./case-generator.ts";
import type { HostileCase } from "./hostile-case.ts";
import { runHostile } from "./hostile-run.ts";
import { REGRESSIONS } from "./regressions.ts";

// `npm run hostile` sets these for a long run.
const { PERIGEE_HOSTILE_REQUESTS, PERIGEE_HOSTILE_SEED, PERIGEE_HOSTILE_REPORT } = process.env;
const seed = Number(PERIGEE_HOSTILE_SEED ?? 20_261_122);
const requests = Number(PERIGEE_HOSTILE_REQUESTS ?? 50);
const serversMax = Number(process.env.PERIGEE_HOSTILE_SERVERS ?? 1);

/** Those that hurt once, then made ones. */
function* allCases(): Generator<HostileCase> {
  yield* REGRESSIONS;
  for (let index = 0; ; index++) yield caseAt(seed, index);
}

test(`${requests} hostile requests harm neither the server nor eight ordinary streams`, async () => {
  const report = await runHostile({ root: ".", cases: allCases(), requests, serversMax });
  if (PERIGEE_HOSTILE_REPORT !== undefined) {
    writeFileSync(PERIGEE_HOSTILE_REPORT, JSON.stringify(report, null, 2));
  }
  expect(report.failures).toEqual([]);
});
