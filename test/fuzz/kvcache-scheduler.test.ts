/**
 * Random lives of many requests. After each operation the books are audited; each step is played
 * on a pretend device, which tells when a position is read with another history's contents.
 */
import { describe, expect, test } from "vitest";
import type { KvCache } from "#kvcache";
import { sized } from "../support/full.ts";
import { type LifeCounts, RandomLife } from "./random-life.ts";

const SEEDS = Array.from({ length: sized(10, 44) }, (_, index) => index + 1);
const OPERATIONS = 1800;

describe("[KV1] [SC3] books and contents stay right in a random life", () => {
  const sums: Partial<LifeCounts> = {};

  test.for(SEEDS)("seed %i", (seed) => {
    const life = new RandomLife(seed);
    for (let operation = 0; operation < OPERATIONS; operation++) life.live();
    life.endAll();
    const { cache, scheduler } = life.harness;
    for (const level of [0, 1, 2] as const) expect(cache.poolStats(level).held).toBe(0);
    expect(scheduler.stats()).toMatchObject({ running: 0, waiting: 0 });
    expect(life.counts.ended).toBeGreaterThan(50);
    for (const [name, count] of Object.entries(life.counts) as [keyof LifeCounts, number][]) {
      sums[name] = (sums[name] ?? 0) + count;
    }
  });

  test("together they met everything often", () => {
    expect(Object.entries(sums).filter(([, count]) => count <= sized(5, 100))).toEqual([]);
  });
});

/** Some lives under a bug. */
function liveWith(plant: (cache: KvCache) => void): () => void {
  return () => {
    for (const seed of SEEDS.slice(0, 10)) {
      const life = new RandomLife(seed);
      plant(life.harness.cache);
      for (let operation = 0; operation < OPERATIONS; operation++) life.live();
    }
  };
}

test("[KV3] a planted lost release is caught", () => {
  const plant = (cache: KvCache) => {
    const release = cache.release.bind(cache);
    cache.release = (table) => {
      if (table.length > 2) table.ids.pop();
      release(table);
    };
  };
  expect(liveWith(plant)).toThrow("holders, tables hold it 0 times");
});

test("[KV3] a planted second release is caught", () => {
  const plant = (cache: KvCache) => {
    const release = cache.release.bind(cache);
    cache.release = (table) => {
      if (table.length > 2) table.ids.push(table.get(0));
      release(table);
    };
  };
  expect(liveWith(plant)).toThrow(/tables hold it|has no holder/);
});

test("[KV16] what a failed step never wrote is caught when it is not forgotten", () => {
  const plant = (cache: KvCache) => {
    cache.forgetPublished = () => undefined;
  };
  expect(liveWith(plant)).toThrow("another history's keys and values");
});

test("[SC17] a planted write to a shared block is caught", () => {
  const plant = (cache: KvCache) => {
    cache.makeWritable = () => true;
  };
  expect(liveWith(plant)).toThrow(/another table holds it|another history/);
});

test("[SC20] a planted move that does not happen is caught", () => {
  const plant = (cache: KvCache) => {
    const takeMoves = cache.takeMoves.bind(cache);
    cache.takeMoves = () => takeMoves().filter(({ kind }) => kind !== "onboard");
  };
  expect(liveWith(plant)).toThrow("another history's keys and values");
});
