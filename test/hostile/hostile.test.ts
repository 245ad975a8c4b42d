import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { full, sized } from "../support/full.ts";
import { caseAt } from "./case-generator.ts";
import type { HostileCase } from "./hostile-case.ts";
import { runHostile } from "./hostile-run.ts";
import { isKnownFailure } from "./known-failures.ts";
import { GROWTH_BYTES_MAX } from "./memory-watch.ts";
import { REGRESSIONS } from "./regressions.ts";

// `npm run hostile` sets these.
const { PERIGEE_HOSTILE } = process.env;
const wishes = PERIGEE_HOSTILE === undefined ? {} : JSON.parse(PERIGEE_HOSTILE);
const { seed = 20_261_122, requests = sized(200, 5_000), only, runs, servers, report } = wishes;

/** Those that hurt once, then made ones; or the one that is asked for. */
function* allCases(): Generator<HostileCase> {
  if (only !== undefined) {
    yield caseAt(seed, only);
    return;
  }
  yield* REGRESSIONS;
  for (let index = 0; ; index++) yield caseAt(seed, index);
}

function* cases(): Generator<HostileCase> {
  for (const one of allCases()) {
    if (one.kind !== "body" || !isKnownFailure(one)) yield one;
  }
}

const minuteMs = 60_000;
/** A loaded machine takes its time; a server that hangs is found by the run itself. */
const timeout = sized(15, 120) * minuteMs;

/**
 * Beside all other tests on few processors, garbage waits longer to be collected: 155 to 307 MiB were
 * seen. `npm run hostile` and `npm run test:full` hold the limit itself.
 */
const isShort = PERIGEE_HOSTILE === undefined && !full;
const growthBytesMax = isShort ? 1.5 * GROWTH_BYTES_MAX : GROWTH_BYTES_MAX;

test(`${requests} hostile requests harm neither the server nor eight ordinary streams`, {
  timeout,
}, async () => {
  const found = await runHostile({
    ...{ root: ".", cases: cases(), requests, serversMax: servers ?? 1, growthBytesMax },
    ...(runs === undefined ? {} : { pauseRuns: runs }),
  });
  if (report !== undefined) writeFileSync(report, JSON.stringify(found));
  expect(found.failures).toEqual([]);
});
