import { expect, test } from "vitest";
import { ROUTING_POLICIES } from "#cluster";
import { costPreset, type FleetTraffic, idealHitRate, runFleet } from "#simulator";

const BLOCK_TOKENS = 64;
const GROUPS = 24;

/** Prompts of groups that share a beginning of 30 blocks, with an end of their own. */
function sharedPrompts(count: number, everyMs: number): FleetTraffic {
  const requests = Array.from({ length: count }, (_, at) => {
    const atMs = at * everyMs;
    const group = Math.imul(at, 7) % GROUPS;
    const make = () => {
      const tokens = new Int32Array(32 * BLOCK_TOKENS + 1);
      for (let place = 0; place < tokens.length; place++) {
        const isShared = place < 30 * BLOCK_TOKENS;
        tokens[place] = 5000 + (isShared ? group * 4096 : 200_000 + at * 4096) + place;
      }
      return { atMs, tokens, outputTokens: 20, session: `s${group}` };
    };
    return { atMs, make };
  });
  return { name: "shared prompts", requests, blockTokens: BLOCK_TOKENS };
}

function run(policy: (typeof ROUTING_POLICIES)[number], traffic: FleetTraffic, seed = 1) {
  return runFleet({
    ...{ workers: 4, policy, model: costPreset("h200-8b"), traffic, seed },
    ...{ blockTokens: BLOCK_TOKENS, blocks: [3000, 0, 0] as const },
  });
}

test.for(ROUTING_POLICIES)("[CL62] %s: all requests end, and all books with them", (policy) => {
  const result = run(policy, sharedPrompts(200, 10));
  expect(result.requests).toBe(200);
  expect(result.openReservations).toBe(0);
});

test("the same seed gives the same run", () => {
  const traffic = sharedPrompts(100, 10);
  expect(run("kv", traffic, 5)).toEqual(run("kv", traffic, 5));
});

test("[CL64] kv comes near one cache without bounds, and before all others", () => {
  const traffic = sharedPrompts(600, 15);
  const ideal = idealHitRate(traffic);
  const kv = run("kv", traffic);
  expect(kv.hitRate).toBeGreaterThan(0.9 * ideal);
  for (const policy of ROUTING_POLICIES) {
    if (policy === "kv") continue;
    const other = run(policy, traffic);
    expect(other.hitRate).toBeLessThanOrEqual(kv.hitRate * 1.005);
    expect(other.ttftMs.p90).toBeGreaterThanOrEqual(kv.ttftMs.p90 * 0.995);
  }
});
