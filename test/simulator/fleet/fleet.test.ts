import { expect, test } from "vitest";
import { ROUTING_POLICIES, type RoutingPolicyName, seededRng } from "#cluster";
import {
  costPreset,
  idealHitRate,
  runFleet,
  sharedPrompts,
  type Traffic,
  type TrafficRequest,
  workingSetTokens,
} from "#simulator";

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

/** Long prompts of very different lengths, each followed by three turns that add a fifth. */
function conversations(seed: number): Traffic {
  const rng = seededRng(seed);
  const gapMs = (mean: number) => -Math.log(1 - rng.next()) * mean;
  const requests: TrafficRequest[] = [];
  let startMs = 0;
  for (let place = 0; place < 100; place++) {
    startMs += gapMs(500);
    let atMs = startMs;
    let promptTokens = 0;
    const pieces: { role: "user"; name: readonly [number, number]; tokens: number }[] = [];
    for (let turn = 0; turn < 4; turn++) {
      const radius = Math.sqrt(-2 * Math.log(1 - rng.next()));
      const normal = radius * Math.cos(2 * Math.PI * rng.next());
      const median = turn === 0 ? 6000 : 1200;
      const tokens = Math.min(60_000, Math.ceil(median * Math.exp(1.2 * normal)));
      pieces.push({ role: "user", name: [10 * place + turn, 3], tokens });
      promptTokens += tokens;
      requests.push({
        ...{ id: `${place}-${turn}`, atMs, after: null, thinkMs: 0, session: null },
        ...{ pieces: [...pieces], promptTokens, outputTokens: 150 },
      });
      atMs += 5000 + gapMs(10_000);
    }
  }
  requests.sort((a, b) => a.atMs - b.atMs);
  return { name: "conversations", requests };
}

test("[CL182] kv waits for a long prefix: what it loses of one endless cache is below 1 %", () => {
  const load = conversations(2);
  const { hitRate } = runFleet({
    ...{ workers: 4, policy: "kv", model: costPreset("h200-8b"), traffic: load, seed: 2 },
    ...{ blockTokens: BLOCK_TOKENS, blocks: [40_000, 0, 0] as const },
  });
  // 0.981 where a delay is counted for those alone that are there, 0.996 now.
  expect(hitRate / idealHitRate(load, BLOCK_TOKENS)).toBeGreaterThan(0.99);
});

test("[CL183] where memory holds a quarter, kv's first tokens are no later than turn by turn", () => {
  const settings = { outputTokens: 250, rates: [{ perSecond: 12, seconds: 40 }] };
  const blocks = Math.ceil(workingSetTokens(settings) / 4 / 8 / BLOCK_TOKENS);
  const load = sharedPrompts({ ...settings, seed: 3 });
  const [kv, turns] = (["kv", "round-robin"] as const).map((policy) =>
    runFleet({
      ...{ workers: 8, policy, model: costPreset("h200-8b"), traffic: load, seed: 3 },
      ...{ blockTokens: BLOCK_TOKENS, blocks: [blocks, 0, 0] as const },
    }),
  );
  // Most prompts are computed whole, under both: 1.09 times as late with speeds measured wrong.
  expect((kv?.ttftMs.p90 ?? 0) / (turns?.ttftMs.p90 ?? 1)).toBeLessThan(1.02);
  expect(kv?.hitRate ?? 0).toBeGreaterThan(3 * (turns?.hitRate ?? 1));
});
