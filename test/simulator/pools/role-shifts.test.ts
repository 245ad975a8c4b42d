/** A trace whose load shifts from long prompts to long outputs, with roles that change or do not. */
import { expect, test } from "vitest";
import { ConductorConfig, seededRng } from "#cluster";
import { PAPER_COSTS, type PoolOptions, runPools } from "#simulator";
import { sized } from "../../support/full.ts";

/** Long prompts come for so long, then long outputs. */
const FIRST_MS = sized(400_000, 900_000);
const SECOND_MS = sized(60_000, 900_000);
const roleChanges = { sustainMs: 20_000, cooldownMs: 30_000 };
const conductor = ConductorConfig.parse({ ttftDeadlineMs: 30_000, tbtDeadlineMs: 100 });

/** No two prompts share a beginning. */
function shiftingTrace(seed: number): PoolOptions["trace"] {
  const rng = seededRng(seed);
  const between = (low: number, high: number) => low + Math.floor(rng.next() * (high - low));
  const requests = [];
  let block = 1;
  for (let timestampMs = 0; timestampMs < FIRST_MS + SECOND_MS; ) {
    const isFirst = timestampMs < FIRST_MS;
    timestampMs += (-Math.log(1 - rng.next()) / (isFirst ? 4 : 10)) * 1000;
    const inputTokens = isFirst ? between(12_000, 20_000) : between(1000, 2000);
    const outputTokens = isFirst ? between(20, 60) : between(600, 1200);
    const ids = Int32Array.from({ length: Math.floor(inputTokens / 512) }, () => block++);
    requests.push({ timestampMs, inputTokens, outputTokens, ids, priorities: null });
  }
  return { kind: "blocks", blockTokens: 512, blockRefs: block - 1, requests };
}

test("[CO50] more requests keep their deadlines where nodes follow the load", {
  timeout: 120_000,
}, () => {
  const trace = shiftingTrace(1);
  const nodes = { prefillNodes: 4, decodeNodes: 4 };
  const shared = { ...nodes, trace, conductor, costs: PAPER_COSTS, seed: 1 };
  const fixed = runPools(shared);
  const following = runPools({ ...shared, roleChanges });
  expect(fixed.roleChanges).toEqual([]);
  expect(following.goodput).toBeGreaterThan(fixed.goodput + 0.01);
  for (const { role, atMs } of following.roleChanges) {
    expect(role).toBe(atMs > FIRST_MS ? "decode" : "prefill");
  }
  expect(following.roleChanges.length).toBeGreaterThan(0);
  expect(following).toMatchObject({ openBookings: 0, requests: trace.requests.length });
});

test("[CO50] a load that both pools bear changes no role, and nothing else", () => {
  const trace = shiftingTrace(2);
  const requests = trace.requests.filter(({ timestampMs }) => timestampMs < 60_000);
  const nodes = { prefillNodes: 4, decodeNodes: 4 };
  const shared = { ...nodes, trace: { ...trace, requests }, conductor, costs: PAPER_COSTS };
  const off = runPools({ ...shared, seed: 1, speed: 0.5 });
  const auto = runPools({ ...shared, seed: 1, speed: 0.5, roleChanges });
  const { events: _, ...rest } = off;
  expect(auto).toMatchObject(rest);
  expect(auto.roleChanges).toEqual([]);
});
