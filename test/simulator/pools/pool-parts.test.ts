import { expect, test } from "vitest";
import { ConductorConfig } from "#cluster";
import { HOT_RANKS, PAPER_COSTS, type PoolOptions, parseTrace, runPools } from "#simulator";
import { HotBlocks } from "../../../src/simulator/pools/hot-blocks.ts";
import { curveOf, gapsOf } from "../../../src/simulator/pools/pool-result.ts";
import { PrefillLine } from "../../../src/simulator/pools/prefill-line.ts";
import { POOL_SCOPE, PrefillNode } from "../../../src/simulator/pools/prefill-node.ts";
import { SimClock } from "../../../src/simulator/sim-clock.ts";
import { kvChangesOf } from "../../../src/simulator/sim-kv-changes.ts";

interface Row {
  readonly at: number;
  readonly ids: readonly number[];
  readonly output?: number;
}

async function run(rows: readonly Row[], options: Partial<PoolOptions> = {}) {
  const lines = rows.map(({ at, ids, output = 1 }) =>
    JSON.stringify({
      ...{ timestamp: at, input_length: ids.length * 512 },
      ...{ output_length: output, hash_ids: ids },
    }),
  );
  return runPools({
    trace: await parseTrace(lines, { path: "test", blockTokens: 512 }),
    ...{ prefillNodes: 2, decodeNodes: 2, costs: PAPER_COSTS, seed: 1 },
    conductor: ConductorConfig.parse({}),
    ...options,
  });
}

/** Prompts in one node's line; notes who ended, and when. */
function lineOf() {
  const clock = new SimClock();
  const ended: string[] = [];
  const node = new PrefillNode({
    ...{ clock, costs: PAPER_COSTS, blockTokens: 512, chunkTokens: 2048 },
    onChanges: () => undefined,
  });
  const line = new PrefillLine(clock, node);
  let blocks = 0;
  const enter = (id: string, count: number, prefixAtMs: number | null) => {
    const ids = Int32Array.from({ length: count }, () => blocks++);
    const done = () => ended.push(id);
    const job = { id, ids, inputTokens: 512 * count, priority: 0, begun: () => undefined, done };
    return line.enter(job, 97.6 + 0.11 * 512 * count, prefixAtMs);
  };
  return { clock, line, enter, ended };
}

test("[CO35] a prompt keeps its place while its prefix travels; shorter ones go ahead", () => {
  const { clock, line, enter, ended } = lineOf();
  const first = enter("first", 2, 1000);
  enter("long", 100, null);
  enter("short", 2, null);
  clock.at(1000, () => line.ready(first, null));
  clock.run();
  expect(ended).toEqual(["short", "first", "long"]);
});

test("[CO35] one whose prefix is late is waited for, and holds the line up no longer than that", () => {
  const { clock, line, enter, ended } = lineOf();
  const first = enter("first", 2, 10);
  enter("second", 2, null);
  clock.at(5000, () => line.ready(first, null));
  clock.run();
  expect(ended).toEqual(["first", "second"]);
});

test("[CO36] a coupled node decodes while it computes prompts, and a chunk holds tokens up", async () => {
  const rows: Row[] = [
    { at: 0, ids: [1], output: 60 },
    { at: 1000, ids: Array.from({ length: 40 }, (_, at) => 10 + at), output: 2 },
  ];
  const coupled = (stepTokens: number, chunkedPrefill: boolean) =>
    run(rows, { coupledNodes: 1, coupled: { stepTokens, chunkedPrefill, prefixCaching: true } });
  const [small, large, whole] = [
    await coupled(512, true),
    await coupled(4096, true),
    await coupled(4096, false),
  ];
  for (const result of [small, large, whole]) {
    expect(result).toMatchObject({ completed: 2, openBookings: 0, transferBytes: 0 });
  }
  const worst = ({ tbtP99Ms }: typeof small) => tbtP99Ms.max;
  expect(worst(small)).toBeLessThan(worst(large));
  expect(worst(large)).toBeLessThan(worst(whole));
  // The same prompt in chunks of 512 beside a decoding sequence takes longer than in one step.
  expect(small.ttftMs.max).toBeGreaterThan(whole.ttftMs.max);
});

test("[CO36] alone, a coupled node takes a prompt's costs, and finds its prefix again", async () => {
  const ids = [1, 2, 3, 4];
  const rows = [0, 10_000].map((at) => ({ at, ids: [...ids, 100 + at], output: 5 }));
  const { ttftMs, hitRate, tbtMeanMs } = await run(rows, { coupledNodes: 1 });
  const { promptMs, promptTokenMs, promptPairMs } = PAPER_COSTS;
  const tokens = 5 * 512;
  const whole = promptMs + tokens * promptTokenMs + ((tokens * (tokens + 1)) / 2) * promptPairMs;
  expect(ttftMs.max).toBeCloseTo(whole, 6);
  expect(hitRate).toBeCloseTo(0.4, 6);
  expect(tbtMeanMs).toBeGreaterThan(26.06);
  expect(tbtMeanMs).toBeLessThan(27);
});

test("[CO37] where blocks lie in the pool each found prefix travels, and its time counts", async () => {
  const ids = Array.from({ length: 40 }, (_, at) => at);
  const rows = [0, 20_000, 40_000].map((at) => ({ at, ids: [...ids, 100 + at] }));
  const own = await run(rows, { prefillNodes: 1 });
  const pool = await run(rows, { prefillNodes: 2, cachePlace: "pool" });
  expect(own.fetchedTokens).toBe(0);
  expect(pool.fetchedTokens).toBe(2 * 40 * 512);
  expect(pool.hitRate).toBeCloseTo(own.hitRate, 6);
  const travelMs = (40 * 512 * PAPER_COSTS.bytesPerToken) / PAPER_COSTS.networkBytesPerMs;
  expect(pool.ttftMs.p50 - own.ttftMs.p50).toBeCloseTo(travelMs + 1, 3);
});

test("[CO38] a request's TBT is the mean of its longest tenth of gaps, at least one", () => {
  const gaps = Float64Array.from({ length: 20 }, (_, at) => 20 - at);
  expect(gapsOf(gaps)).toEqual({ p99: 20, tail: 19.5, sum: 210 });
  expect(gapsOf(Float64Array.of(7))).toEqual({ p99: 7, tail: 7, sum: 7 });
  expect(curveOf([])).toEqual([]);
  const curve = curveOf(Array.from({ length: 1001 }, (_, at) => at));
  expect([curve.length, curve[0], curve[50], curve[100]]).toEqual([101, 0, 500, 1000]);
});

test("[CO38] shares within deadlines are of all requests, rejected ones included", async () => {
  const rows = Array.from({ length: 40 }, (_, at) => ({ at, ids: [at, 1000 + at], output: 30 }));
  const conductor = ConductorConfig.parse({ ttftDeadlineMs: 800, tbtDeadlineMs: 1000 });
  const result = await run(rows, { conductor });
  const rejected = Object.values(result.rejected).reduce((sum, count) => sum + count, 0);
  expect(rejected).toBeGreaterThan(0);
  expect(result.goodput).toBeLessThanOrEqual(result.completed / 40);
  expect(result.tbtWithin["300"]).toBeCloseTo(result.completed / 40, 6);
});

test("[CO39] replicas of hot blocks are the nodes that hold them, evictions included", async () => {
  const requests = [
    { ids: Int32Array.of(5, 6) },
    { ids: Int32Array.of(5, 7) },
    { ids: Int32Array.of(5, 6, 8) },
  ].map((part) => ({ ...part, timestampMs: 0, inputTokens: 1, outputTokens: 1, priorities: null }));
  const hot = new HotBlocks(requests);
  expect(hot.replicas).toEqual(HOT_RANKS.map(() => 0));
  const clock = new SimClock();
  const nodes = [0, 1].map(
    () =>
      new PrefillNode({
        ...{ clock, costs: { ...PAPER_COSTS, cacheTokens: 3 * 512 }, blockTokens: 512 },
        ...{ chunkTokens: 2048, onChanges: (changes) => hot.apply(changes) },
      }),
  );
  for (const node of nodes) node.endLease(node.install(Int32Array.of(5, 6), 2) ?? fail());
  expect(hot.replicas[0]).toBe(2);
  const [first] = nodes;
  first?.endLease(first.install(Int32Array.of(20, 21, 22), 3) ?? fail());
  expect(hot.replicas[0]).toBe(1);
  expect(kvChangesOf(POOL_SCOPE, first?.cache.takeEvents() ?? [])).toEqual([]);
});

function fail(): never {
  throw new Error("there is no room");
}
