import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ConductorConfig } from "#cluster";
import {
  PAPER_COSTS,
  type PoolOptions,
  parseFleet,
  parseTrace,
  readTrace,
  runPools,
} from "#simulator";
import { Network } from "../../../src/simulator/pools/network.ts";
import { SimClock } from "../../../src/simulator/sim-clock.ts";

interface Row {
  readonly at: number;
  readonly ids: readonly number[];
  readonly input?: number;
  readonly output?: number;
}

async function run(rows: readonly Row[], options: Partial<PoolOptions> = {}) {
  const lines = rows.map(({ at, ids, input = ids.length * 512, output = 1 }) =>
    JSON.stringify({ timestamp: at, input_length: input, output_length: output, hash_ids: ids }),
  );
  return runPools({
    trace: await parseTrace(lines, { path: "test", blockTokens: 512 }),
    ...{ prefillNodes: 2, decodeNodes: 2, costs: PAPER_COSTS, seed: 1 },
    conductor: ConductorConfig.parse({}),
    ...options,
  });
}

/** Requests behind shared beginnings, in bursts. */
function mixed(count: number): Row[] {
  return Array.from({ length: count }, (_, at) => {
    const chat = (at * 7) % 11;
    const turns = 1 + Math.floor(at / 11);
    const ids = [0, ...Array.from({ length: turns }, (_, turn) => 1 + chat * 1000 + turn)];
    return { at: Math.floor(at / 5) * 400, ids, output: 1 + ((at * 13) % 40) };
  });
}

test("[CO30] the same seed gives the same result, and nothing is left open", async () => {
  const [one, two] = [await run(mixed(150)), await run(mixed(150))];
  expect(one).toEqual(two);
  expect(one).toMatchObject({ requests: 150, completed: 150, rejected: {}, openBookings: 0 });
  expect(one.hitRate).toBeGreaterThan(0.5);
});

test.for(["none", "late", "arrival", "predicted"] as const)(
  "[CO30] under %s every request is completed or rejected with a reason",
  async (rejection) => {
    const conductor = ConductorConfig.parse({ rejection, ttftDeadlineMs: 3000, tbtDeadlineMs: 29 });
    const result = await run(mixed(300), { conductor, speed: 4, decodeNodes: 1 });
    const rejected = Object.values(result.rejected).reduce((sum, count) => sum + count, 0);
    expect(result.completed + rejected).toBe(300);
    expect(result.openBookings).toBe(0);
    expect(rejected > 0).toBe(rejection !== "none");
  },
);

test("[CO31] alone, a prompt takes its costs and each token a step's", async () => {
  const { ttftMs, tbtTailMs } = await run([{ at: 0, ids: [1, 2, 3, 4], output: 20 }]);
  const { promptMs, promptTokenMs, promptPairMs } = PAPER_COSTS;
  const pairs = (2048 * 2049) / 2;
  expect(ttftMs.mean).toBeCloseTo(promptMs + 2048 * promptTokenMs + pairs * promptPairMs, 6);
  // The first of its 19 gaps has the load from host memory, too.
  expect(tbtTailMs.mean).toBeGreaterThan(26.06);
  expect(tbtTailMs.mean).toBeLessThan(40);
});

test("[CO31] a busy holder's prefix moves, and is found as if it had been computed", async () => {
  const ids = Array.from({ length: 40 }, (_, at) => at);
  const burst = Array.from({ length: 8 }, (_, at) => ({ at: 10_000, ids: [...ids, 100 + at] }));
  const global = await run([{ at: 0, ids }, ...burst]);
  expect(global.fetchedTokens).toBeGreaterThanOrEqual(40 * 512);
  expect(global.hitRate).toBeGreaterThan(0.8);
  const local = await run([{ at: 0, ids }, ...burst], {
    conductor: ConductorConfig.parse({ policy: "local" }),
  });
  expect(local.fetchedTokens).toBe(0);
});

test("[CO32] transfers share both ends, and no byte is lost where shares change", () => {
  const clock = new SimClock();
  const network = new Network(clock, 0);
  const [a, b, c] = [100, 100, 50].map((bytesPerMs) => network.addEnd({ bytesPerMs }));
  const ends: [string, number][] = [];
  const note = (name: string) => () => ends.push([name, clock.nowMs()]);
  network.send({ from: a ?? 0, to: b ?? 0 }, 1000, note("long"));
  clock.at(5, () => network.send({ from: a ?? 0, to: b ?? 0 }, 100, note("short")));
  network.send({ from: b ?? 0, to: c ?? 0 }, 500, note("slow"));
  network.send({ from: a ?? 0, to: a ?? 0 }, 500, note("own"));
  clock.run();
  // Alone 5 ms at 100, 2 ms at 50 beside the short one, the last 400 at 100.
  expect(ends).toEqual([
    ["own", 0],
    ["short", 7],
    ["slow", 10],
    ["long", 11],
  ]);
  expect(network.bytes).toBe(2100);
});

test("[CO33] fleets that are none are refused by the field's name", () => {
  expect(parseFleet(null)).toMatchObject({ prefillNodes: 8, decodeNodes: 8 });
  expect(() => parseFleet({ prefillNodes: 0 })).toThrow("prefillNodes");
  expect(() => parseFleet({ nodes: 3 })).toThrow("nodes");
  expect(() => parseFleet({ conductor: { policy: "best" } })).toThrow("conductor.policy");
  expect(() => parseFleet({ deviceTokens: 1e300 })).toThrow("deviceTokens");
  expect(() => parseFleet("x")).toThrow("must be");
  expect(() => parseFleet([])).toThrow("must be");
});

test("[CO33] huge times, lengths and outputs are refused or rejected", async () => {
  await expect(run([{ at: 1e300, ids: [1] }])).rejects.toThrow("timestamps are in ms");
  const far = await run([{ at: 1e11, ids: [1] }]);
  expect(far.completed).toBe(1);
  const huge = await run([
    { at: 0, ids: [1], output: Number.MAX_SAFE_INTEGER },
    { at: 0, ids: [], input: 0 },
    { at: 0, ids: [], input: 100, output: 0 },
    { at: 5, ids: [1, 2], input: 1030 - 100, output: 2 },
  ]);
  expect(huge.rejected).toEqual({ "too-long": 1, empty: 1 });
  expect(huge.completed).toBe(2);
  const small = await run([{ at: 0, ids: [1, 2, 3, 4, 5] }], {
    costs: { ...PAPER_COSTS, cacheTokens: 1024 },
  });
  expect(small.rejected).toEqual({ "too-long": 1 });
});

const path = join(process.env.PERIGEE_TRACES ?? "../shared/traces", "conversation_trace.jsonl");

test.skipIf(!existsSync(path))(
  "[CO30] on a part of Mooncake's conversations policies come in the paper's order",
  async () => {
    const whole = await readTrace(path, 512);
    const trace = { ...whole, requests: whole.requests.slice(0, 1500) };
    const ttft = (["global", "local", "load", "random"] as const).map((policy) => {
      const conductor = ConductorConfig.parse({ policy });
      const pools = { prefillNodes: 6, decodeNodes: 10, costs: PAPER_COSTS, seed: 1 };
      return runPools({ ...pools, trace, conductor }).ttftMs.mean;
    });
    expect(ttft).toEqual(ttft.toSorted((a, b) => a - b));
  },
);
