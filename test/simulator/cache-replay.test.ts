import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { EVICTION_POLICIES } from "#kvcache";
import { mixedWorkload, parseTrace, readTrace, replayTrace, type Trace } from "#simulator";
import { full, sized } from "../support/full.ts";

const clock = { nowMs: () => 0 };
const run = (
  trace: Trace,
  capacityBlocks: number | null,
  policy: (typeof EVICTION_POLICIES)[number] = "lru",
) => replayTrace(trace, { policy, capacityBlocks, clock });

/** Prompts of hash ids, each of 10 tokens; the last has 5. */
const blocksTrace = (...prompts: number[][]) =>
  parseTrace(
    prompts.map((ids) =>
      JSON.stringify({
        timestamp: 0,
        input_length: ids.length * 10 - 5,
        output_length: 1,
        hash_ids: ids,
      }),
    ),
    { path: "made up", blockTokens: 10 },
  );

describe("hits", () => {
  test("the leading run of stored blocks counts, the last block and its tokens included", async () => {
    const trace = await blocksTrace([1, 2, 3], [1, 2, 3], [1, 4], [5, 2, 3]);
    expect(run(trace, null)).toEqual({
      policy: "lru",
      capacityBlocks: null,
      blockHitRate: 4 / 11,
      tokenHitRate: (25 + 10) / 90,
      requests: 4,
      blockRefs: 11,
      evictions: 0,
      seconds: 0,
      // Found 4, taken 11, published 7, given back 11.
      blockOperations: 33,
    });
  });

  test("of a prompt larger than the pool, the head is kept", async () => {
    const trace = await blocksTrace([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 9]);
    const result = run(trace, 3);
    expect(result.blockHitRate).toBe((3 + 1) / 12);
    expect(result.evictions).toBe(1);
    expect(run(trace, 1).blockHitRate).toBe(2 / 12);
  });

  test("of token rows, full blocks count, and the last token is computed", async () => {
    const tokens = (token_ids: number[]) =>
      JSON.stringify({ timestamp: 0, output_length: 1, token_ids });
    const lines = [
      [1, 2, 3, 4],
      [1, 2, 3, 4],
      [1, 2, 3, 4, 5],
      [1, 2, 9],
    ].map(tokens);
    const trace = await parseTrace(lines, { path: "made up", blockTokens: 2 });
    const result = run(trace, null);
    expect(result.blockRefs).toBe(2 + 2 + 3 + 2);
    expect(result.blockHitRate).toBe((1 + 2 + 1) / 9);
    expect(result.tokenHitRate).toBe(8 / 16);
  });

  test("progress is told now and then, time is the clock's", async () => {
    const trace = mixedWorkload({ seed: 1, requests: 2500 });
    const told: number[] = [];
    let nowMs = 0;
    const result = replayTrace(trace, {
      policy: "lru",
      capacityBlocks: 100,
      clock: { nowMs: () => (nowMs += 1500) },
      onProgress: (requests) => told.push(requests),
    });
    expect(told).toEqual([1000, 2000]);
    expect(result.seconds).toBe(1.5);
  });
});

describe("a mixed workload", () => {
  const trace = mixedWorkload({ seed: 7, requests: 4000 });

  test("is the same for the same seed, and another for another", () => {
    const few = (seed: number) => mixedWorkload({ seed, requests: 50 }).requests;
    expect(few(7)).toEqual(trace.requests.slice(0, 50));
    expect(few(8)).not.toEqual(few(7));
  });

  test("has system prompts that are worth keeping and one-off requests that are not", () => {
    const shares = [100, 10].map(
      (priority) =>
        trace.requests.filter(({ priorities }) => priorities?.[0] === priority).length / 4000,
    );
    expect(shares[0]).toBeCloseTo(0.5, 1);
    expect(shares[1]).toBeCloseTo(0.2, 1);
  });

  test.for(sized([2000], [2000, 5000]))(
    "hits more with priorities than with LRU, at %i blocks",
    (capacity) => {
      const lru = run(trace, capacity).blockHitRate;
      expect(run(trace, capacity, "priority").blockHitRate).toBeGreaterThan(1.2 * lru);
    },
  );

  test("does as well without bound under any order", () => {
    const some = mixedWorkload({ seed: 7, requests: sized(1000, 4000) });
    const rates = EVICTION_POLICIES.map((policy) => run(some, null, policy).blockHitRate);
    expect(new Set(rates).size).toBe(1);
  });
});

/** Traces are not ours to pass on: they lie beside the checkout. Their replays are long ones. */
const folder =
  process.env.PERIGEE_TRACES ?? fileURLToPath(new URL("../../../shared/traces", import.meta.url));
const path = `${folder}/conversation_trace.jsonl`;

describe.runIf(full && existsSync(path))(
  existsSync(path)
    ? "Mooncake's conversation trace"
    : "Mooncake's conversation trace: skipped, docs/replay.md says where it comes from and goes",
  () => {
    let trace: Trace;
    beforeAll(async () => {
      trace = await readTrace(path, 512);
    });

    test("LRU hits as often as an independent count of the same trace", () => {
      for (const [capacity, expected] of [
        [1000, 0.045],
        [10_000, 0.212],
        [30_000, 0.326],
        [50_000, 0.355],
        [100_000, 0.364],
        [null, 0.366],
      ] as const) {
        expect(Math.abs(run(trace, capacity).blockHitRate - expected)).toBeLessThan(0.002);
      }
    });

    test.for([10_000, 50_000])(
      "LRU >= LFU >= length-aware at %i blocks, as in the paper's table 1",
      (capacity) => {
        const rates = (["lru", "lfu", "length-aware"] as const).map(
          (policy) => run(trace, capacity, policy).blockHitRate,
        );
        expect(rates).toEqual([...rates].sort((a, b) => b - a));
      },
    );
  },
);
