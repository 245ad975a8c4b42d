import { expect, test } from "vitest";
import { ROUTING_POLICIES, type RoutingPolicyName } from "#cluster";
import { costPreset, idealHitRate, runFleet, sharedPrompts, type Traffic } from "#simulator";

const BLOCK_TOKENS = 64;

/** Groups that share a beginning of 30 blocks, with a question of their own each. */
function traffic(perSecond: number, seconds: number): Traffic {
  return sharedPrompts({
    ...{ groups: 24, questions: 1000, systemTokens: 30 * BLOCK_TOKENS, questionTokens: 129 },
    ...{ outputTokens: 20, rates: [{ perSecond, seconds }] },
  });
}

function run(policy: RoutingPolicyName, load: Traffic, seed = 1) {
  return runFleet({
    ...{ workers: 4, policy, model: costPreset("h200-8b"), traffic: load, seed },
    ...{ blockTokens: BLOCK_TOKENS, blocks: [3000, 0, 0] as const },
  });
}

test.for(ROUTING_POLICIES)("[CL62] %s: all requests end, and all books with them", (policy) => {
  const load = traffic(100, 2);
  const result = run(policy, load);
  expect(result.requests).toBe(load.requests.length);
  expect(result.openReservations).toBe(0);
});

test("the same seed gives the same run", () => {
  const load = traffic(100, 1);
  expect(run("kv", load, 5)).toEqual(run("kv", load, 5));
});

test("[CL64] kv comes near one cache without bounds, and before all others", () => {
  const load = traffic(66, 9);
  const ideal = idealHitRate(load, BLOCK_TOKENS);
  const kv = run("kv", load);
  expect(kv.hitRate).toBeGreaterThan(0.9 * ideal);
  for (const policy of ROUTING_POLICIES) {
    if (policy === "kv") continue;
    const other = run(policy, load);
    expect(other.hitRate).toBeLessThanOrEqual(kv.hitRate * 1.005);
    expect(other.ttftMs.p90).toBeGreaterThanOrEqual(kv.ttftMs.p90 * 0.995);
  }
});
