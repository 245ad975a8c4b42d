import { afterEach, describe, expect, test, vi } from "vitest";
import { KvCache, type KvCacheShape } from "#kvcache";
import { KvEventQueue } from "../../src/kvcache/events/kv-event-queue.ts";
import { BlockReceives } from "../../src/kvcache/levels/block-receives.ts";
import { BlockSends } from "../../src/kvcache/levels/block-sends.ts";
import { CacheBooks } from "../../src/kvcache/levels/cache-books.ts";
import { LevelBooks } from "../../src/kvcache/levels/level-books.ts";
import { sized } from "../support/full.ts";
import { CacheLife, OPERATION_NAMES } from "./cache-life.ts";

// `node tools/fuzz.mjs` sets these for a long run.
const { PERIGEE_FUZZ_OPERATIONS, PERIGEE_FUZZ_SEED } = process.env;
const OPERATIONS = Number(PERIGEE_FUZZ_OPERATIONS ?? sized(24_000, 240_000));
const FIRST_SEED = Number(PERIGEE_FUZZ_SEED ?? 1);

/** Small levels, so that everything is scarce. */
const SHAPES: Record<string, KvCacheShape> = {
  "one level": { blocks: 14, blockTokens: 4 },
  "one level, blocks of one token": { blocks: 40, blockTokens: 1 },
  "two levels": { blocks: 12, blockTokens: 4, hostBlocks: 8 },
  "two levels, lru": { blocks: 12, blockTokens: 4, hostBlocks: 8, evictionPolicy: "lru" },
  "two levels, true priorities": {
    ...{ blocks: 12, blockTokens: 4, hostBlocks: 8 },
    evictionPolicy: "true-priority",
  },
  "three levels": { blocks: 10, blockTokens: 4, hostBlocks: 6, diskBlocks: 12 },
  "three levels, lfu, large disk": {
    ...{ blocks: 10, blockTokens: 4, hostBlocks: 6, diskBlocks: 60 },
    evictionPolicy: "lfu",
  },
  "three levels, length-aware, small host": {
    ...{ blocks: 10, blockTokens: 2, hostBlocks: 3, diskBlocks: 9 },
    evictionPolicy: "length-aware",
  },
  "full blocks alone": { blocks: 12, blockTokens: 4, hostBlocks: 8, partialReuse: false },
  "no copies on partial reuse": {
    ...{ blocks: 12, blockTokens: 4, hostBlocks: 8, copyOnPartialReuse: false },
  },
  "no prefix caching": { blocks: 12, blockTokens: 4, hostBlocks: 8, prefixCaching: false },
  "a window": { blocks: 12, blockTokens: 4, windows: [{ tokens: 6, sinkTokens: 0 }] },
  "a window below a block": { blocks: 9, blockTokens: 4, windows: [{ tokens: 3, sinkTokens: 0 }] },
  "a window with sinks, three levels, lru": {
    ...{ blocks: 10, blockTokens: 2, hostBlocks: 6, diskBlocks: 9, evictionPolicy: "lru" },
    windows: [{ tokens: 8, sinkTokens: 3 }],
  },
  "a window, two levels": {
    ...{ blocks: 10, blockTokens: 2, hostBlocks: 8 },
    windows: [{ tokens: 7, sinkTokens: 0 }],
  },
  "two groups of layers, one with a window": {
    ...{ blocks: 26, blockTokens: 4 },
    windows: [null, { tokens: 6, sinkTokens: 0 }],
  },
  "three groups, two windows, three levels": {
    ...{ blocks: 30, blockTokens: 2, hostBlocks: 14, diskBlocks: 30 },
    windows: [null, { tokens: 9, sinkTokens: 0 }, { tokens: 5, sinkTokens: 0 }],
  },
  "two groups with windows, lru": {
    ...{ blocks: 20, blockTokens: 4, hostBlocks: 12, evictionPolicy: "lru" },
    windows: [
      { tokens: 11, sinkTokens: 0 },
      { tokens: 6, sinkTokens: 0 },
    ],
  },
};

const operationsEach = Math.ceil(OPERATIONS / Object.keys(SHAPES).length);

const lives = Object.entries(SHAPES).map(([name, shape], at) => ({
  ...{ name, shape, seed: FIRST_SEED + at },
}));

test.for(lives)(
  "[KV1] books, contents and events are right in a random life: $name (seed $seed)",
  ({ shape, seed }) => {
    const life = new CacheLife(shape, seed);
    for (let operation = 0; operation < operationsEach; operation++) life.live();
    life.end();
    expect(life.operations.get("admit")).toBeGreaterThan(operationsEach / 50);
  },
);

test("[KV1] [KV34] a random life with three levels does everything there is to do", () => {
  const life = new CacheLife(SHAPES["three levels"] ?? { blocks: 10, blockTokens: 4 }, 70);
  for (let operation = 0; operation < 12_000; operation++) life.live();
  expect([...life.operations.keys()].sort()).toEqual([...OPERATION_NAMES].sort());
  const [device, host, disk] = life.cache.stats().levels;
  for (const level of [device, host, disk]) {
    expect(level?.forgotten).toBeGreaterThan(0);
    expect(level?.onboarded === 0 && level !== device).toBe(false);
  }
  expect(device?.offloaded).toBeGreaterThan(0);
  expect(host?.offloaded).toBeGreaterThan(0);
  expect(device?.expired).toBeGreaterThan(0);
  expect(life.cache.stats().copiedBlocks).toBeGreaterThan(0);
  expect(life.cache.stats().diskFailures).toBeGreaterThan(0);
  expect(life.snapshotsTaken).toBeGreaterThan(3);
  expect(life.travelled).toEqual({
    sent: expect.toSatisfy((count) => count > 20),
    received: expect.toSatisfy((count) => count > 10),
    cut: expect.toSatisfy((count) => count > 3),
  });
});

/** Lives on until something is noticed. */
function liveOn(shape: KvCacheShape): void {
  const life = new CacheLife(shape, 5);
  for (let operation = 0; operation < 20_000; operation++) life.live();
  life.end();
}

/** Every so many calls of a method something else happens. */
function everyNth<Arguments extends unknown[]>(
  nth: number,
  otherwise: (original: (...given: Arguments) => void, given: Arguments) => void,
  original: (this: unknown, ...given: Arguments) => void,
): (this: unknown, ...given: Arguments) => void {
  let calls = 0;
  return function (...given) {
    const run = original.bind(this);
    if (++calls % nth === 0) otherwise(run, given);
    else run(...given);
  };
}

describe("planted bugs are caught", () => {
  afterEach(() => vi.restoreAllMocks());
  const shape: KvCacheShape = { blocks: 10, blockTokens: 4, hostBlocks: 6, diskBlocks: 12 };

  test("[KV3] a lost release", () => {
    const { release } = LevelBooks.prototype;
    const lost = everyNth(40, () => undefined, release);
    vi.spyOn(LevelBooks.prototype, "release").mockImplementation(lost);
    expect(() => liveOn(shape)).toThrow(/holders, tables hold it/);
  });

  test("[KV3] a second release", () => {
    const { release } = LevelBooks.prototype;
    const twice = everyNth(
      40,
      (run: typeof release, given: Parameters<typeof release>) => {
        run(...given);
        run(...given);
      },
      release,
    );
    vi.spyOn(LevelBooks.prototype, "release").mockImplementation(twice);
    expect(() => liveOn(shape)).toThrow(/has no holder|tables hold it/);
  });

  test("[KV33] a removed event that is lost", () => {
    const { emit } = KvEventQueue.prototype;
    vi.spyOn(KvEventQueue.prototype, "emit").mockImplementation(function (
      this: KvEventQueue,
      event,
    ) {
      if (event.type !== "removed") emit.call(this, event);
    });
    expect(() => liveOn(shape)).toThrow("A reader of the events knows otherwise");
  });

  test("[KV27] a move that is not carried out", () => {
    const { takeMoves } = CacheBooks.prototype;
    vi.spyOn(CacheBooks.prototype, "takeMoves").mockImplementation(function (this: CacheBooks) {
      return takeMoves.call(this).slice(1);
    });
    expect(() => liveOn(shape)).toThrow("another history's keys and values");
  });

  test("[KV16] contents of a failed step that are not forgotten", () => {
    vi.spyOn(KvCache.prototype, "forgetPublished").mockImplementation(() => undefined);
    expect(() => liveOn(shape)).toThrow("another history's keys and values");
  });

  test("[KV48] a block that is sent, and not held until then", () => {
    const { finish } = BlockSends.prototype;
    const early = everyNth(
      10,
      (run: typeof finish, [finished]: Parameters<typeof finish>) => {
        run(finished);
        run(finished);
      },
      finish,
    );
    vi.spyOn(BlockSends.prototype, "finish").mockImplementation(early);
    expect(() => liveOn(shape)).toThrow("Cannot finish a job twice");
  });

  test("[KV51] a block behind one that did not come, stored nevertheless", () => {
    const { finish } = BlockReceives.prototype;
    vi.spyOn(BlockReceives.prototype, "finish").mockImplementation(function (
      this: BlockReceives,
      { job },
    ) {
      return finish.call(this, { job, ok: true });
    });
    expect(() => liveOn(shape)).toThrow("another history's keys and values");
  });

  test("[KV24] a shared block that is written without a copy", () => {
    vi.spyOn(KvCache.prototype, "makeWritable").mockImplementation(() => true);
    expect(() => liveOn(shape)).toThrow("A block that others hold is written");
  });
});
