/** Loads that shift between long prompts and long outputs, with roles that follow them or do not. */
import { expect, test } from "vitest";
import { ConductorConfig, seededRng } from "#cluster";
import { PAPER_COSTS, type PoolOptions, parseFleet, runPools } from "#simulator";
import { sized } from "../../support/full.ts";

const { roleChanges } = parseFleet({ roleChanges: {} });
const conductor = ConductorConfig.parse({ ttftDeadlineMs: 30_000, tbtDeadlineMs: 100 });
const PHASE_S = sized(180, 900);
const TEST_MS = 120_000;

interface Phase {
  readonly seconds: number;
  readonly perSecond: number;
  readonly input: readonly [number, number];
  readonly output: readonly [number, number];
}

/** Three nodes are busy with these prompts; two are needed for these outputs, less for the rest. */
const PROMPTS: Phase = {
  ...{ seconds: PHASE_S, perSecond: 1.4 },
  ...{ input: [12_000, 20_000], output: [20, 60] },
};
const OUTPUTS: Phase = {
  ...{ seconds: PHASE_S, perSecond: 5 },
  ...{ input: [1000, 2000], output: [600, 1200] },
};
const MIXED: Phase = {
  ...{ seconds: PHASE_S, perSecond: 1 },
  ...{ input: [4000, 12_000], output: [200, 600] },
};

/** No two prompts share a beginning. */
function traceOf(seed: number, phases: readonly Phase[]): PoolOptions["trace"] {
  const rng = seededRng(seed);
  const between = ([low, high]: readonly [number, number]) =>
    low + Math.floor(rng.next() * (high - low));
  const requests = [];
  let block = 1;
  let beginMs = 0;
  for (const { seconds, perSecond, input, output } of phases) {
    const endMs = beginMs + seconds * 1000;
    for (let timestampMs = beginMs; ; ) {
      timestampMs += (-Math.log(1 - rng.next()) / perSecond) * 1000;
      if (timestampMs >= endMs) break;
      const [inputTokens, outputTokens] = [between(input), between(output)];
      const ids = Int32Array.from({ length: Math.floor(inputTokens / 512) }, () => block++);
      requests.push({ timestampMs, inputTokens, outputTokens, ids, priorities: null });
    }
    beginMs = endMs;
  }
  return { kind: "blocks", blockTokens: 512, blockRefs: block - 1, requests };
}

function run(trace: PoolOptions["trace"], prefillNodes: number, follows: boolean) {
  const nodes = { prefillNodes, decodeNodes: 4 - prefillNodes };
  const result = runPools({
    ...{ ...nodes, trace, conductor, costs: PAPER_COSTS, seed: 1 },
    roleChanges: follows ? roleChanges : null,
  });
  expect(result).toMatchObject({ openBookings: 0, requests: trace.requests.length });
  return result;
}

test.each(sized([1], [1, 2, 3]))(
  "[CO50] where the load shifts more requests keep their deadlines than with any split (seed %i)",
  { timeout: TEST_MS },
  (seed) => {
    const trace = traceOf(seed, [PROMPTS, OUTPUTS]);
    const fixed = [1, 2, 3].map((prefillNodes) => run(trace, prefillNodes, false).goodput);
    for (const prefillNodes of [1, 2, 3]) {
      const { goodput, roleChanges: changes } = run(trace, prefillNodes, true);
      expect(goodput).toBeGreaterThan((fixed[prefillNodes - 1] ?? 1) + 0.02);
      if (prefillNodes > 1) expect(goodput).toBeGreaterThan(Math.max(...fixed) + 0.02);
      const later = changes.filter(({ atMs }) => atMs > PHASE_S * 1000);
      expect(later.map(({ role }) => role)).toContain("decode");
    }
  },
);

test("[CO54] a load that the split bears changes no role, and nothing else", {
  timeout: TEST_MS,
}, () => {
  const trace = traceOf(2, [MIXED, MIXED]);
  const { events: _, ...off } = run(trace, 2, false);
  const auto = run(trace, 2, true);
  expect(auto).toMatchObject(off);
  expect(auto.roleChanges).toEqual([]);
});

test.each([
  ["prompts", { ...PROMPTS, perSecond: 2.1 }],
  ["outputs", { ...OUTPUTS, perSecond: 7.5 }],
] as const)(
  "[CO54] bursts of a minute cost no more than 0.01 of the best split: %s",
  { timeout: TEST_MS },
  (_, kind) => {
    const burst = { ...kind, seconds: 60 };
    const trace = traceOf(3, [MIXED, burst, MIXED, burst, MIXED]);
    const fixed = [1, 2, 3].map((prefillNodes) => run(trace, prefillNodes, false).goodput);
    const best = fixed.indexOf(Math.max(...fixed)) + 1;
    expect(run(trace, best, true).goodput).toBeGreaterThan(Math.max(...fixed) - 0.01);
  },
);
