import { describe, expect, test } from "vitest";
import { BlockTable } from "#kvcache";
import { CacheManager, range, worth } from "../support/cache-manager.ts";

/** V 5.3's setting: four blocks of four positions on each side. */
function manager(changes: { readonly hostBlocks?: number } = {}) {
  return new CacheManager({ blocks: 4, blockTokens: 4, hostBlocks: 4, ...changes });
}

describe("vLLM's scenarios", () => {
  test("[KV38] V 5.3 (V4): out and in, each block once, and free blocks follow", () => {
    const four = manager();
    const { cache } = four;
    const sequence = four.add(range(0, 7));
    const fork = four.fork(sequence);
    const tables = [sequence.table, fork.table];
    const before = [...sequence.table.view()];
    expect(cache.swapBlocks(tables)).toBe(2);
    expect(cache.swapOut(tables)).toBe(true);
    const out = cache.takeMoves();
    expect(out.map(({ kind, from }) => [kind, from])).toEqual(
      before.map((block) => ["offload", block]),
    );
    expect(cache.poolStats(0)).toMatchObject({ free: 4, held: 0 });
    expect(cache.poolStats(1)).toMatchObject({ free: 2, held: 2 });
    expect([...fork.table.view()]).toEqual([...sequence.table.view()]);

    expect(cache.swapIn(tables)).toBe(true);
    const back = cache.takeMoves();
    expect(back.map(({ kind, from }) => [kind, from])).toEqual(
      out.map(({ to }) => ["onboard", to]),
    );
    expect(cache.poolStats(0)).toMatchObject({ free: 2, held: 2 });
    expect(cache.poolStats(1)).toMatchObject({ free: 4, held: 0 });
    expect(cache.stats()).toMatchObject({ swappedOutBlocks: 2, swappedInBlocks: 2 });
    four.remove(fork);
    four.remove(sequence);
    expect(() => cache.audit([new BlockTable()])).not.toThrow();
  });

  test("[KV3] V 5.3 (V4): what is given back twice is a bug, what is given back is gone", () => {
    const four = manager();
    const sequence = four.add(range(0, 7));
    const copy = new BlockTable();
    for (const block of sequence.table.view()) copy.ids.push(block);
    four.remove(sequence);
    expect(sequence.table.length).toBe(0);
    expect(() => four.cache.release(copy)).toThrow("has no holder");
  });

  test("[KV14] V 5.3 (V4): forgetting everything makes all blocks free again", () => {
    const four = manager();
    four.pass(range(0, 15));
    expect(four.cache.reset()).toBe(true);
    expect(four.cache.poolStats(0)).toEqual({ free: 4, held: 0, cached: 0, total: 4 });
  });
});

describe("swapping", () => {
  test("[KV38] moves all tables or none", () => {
    const four = manager({ hostBlocks: 3 });
    const [one, two] = [four.add(range(0, 7)), four.add(range(100, 107))];
    const tables = [one.table, two.table];
    expect(four.cache.canSwapOut(tables)).toBe(false);
    expect(four.cache.swapOut(tables)).toBe(false);
    expect(four.cache.takeMoves()).toEqual([]);
    expect(four.cache.poolStats(1).held).toBe(0);
    expect(four.cache.swapOut([one.table])).toBe(true);
    const other = four.add(range(200, 203));
    expect(four.cache.swapIn([one.table])).toBe(false);
    expect(one.table.swapped).toBe(true);
    four.remove(other);
    expect(four.cache.swapIn([one.table])).toBe(true);
  });

  test("[KV38] leaves blocks that others hold on the device, too", () => {
    const four = manager();
    const sequence = four.add(range(0, 4));
    const fork = four.fork(sequence);
    expect(four.cache.swapOut([fork.table])).toBe(true);
    expect(four.held(sequence).map((block) => four.cache.levelOf(block))).toEqual([0, 0]);
    expect(four.cache.poolStats(0).held).toBe(2);
    four.remove(sequence);
    expect(four.stored(range(0, 3))).toBe(4);
    four.remove(fork);
    expect(four.cache.poolStats(1)).toMatchObject({ free: 4 });
  });

  test("[KV38] makes known again what comes back", () => {
    const four = manager();
    const sequence = four.add(range(0, 7));
    four.cache.swapOut([sequence.table]);
    expect(four.stored(range(0, 7))).toBe(0);
    four.cache.swapIn([sequence.table]);
    four.push(sequence, 8);
    expect(four.stored(range(0, 7))).toBe(8);
  });

  test("[KV38] makes room in host memory by forgetting what is cached there", () => {
    const four = manager();
    four.pass(range(0, 15));
    four.pass(range(100, 115));
    expect(four.cache.poolStats(1).cached).toBe(4);
    const sequence = four.add(range(200, 207));
    expect(four.cache.swapOut([sequence.table])).toBe(true);
    expect(four.cache.poolStats(1)).toMatchObject({ held: 2 });
    expect(four.cache.swapIn([sequence.table])).toBe(true);
  });

  test("[KV38] is refused without host memory, but for tables without blocks", () => {
    const alone = new CacheManager({ blocks: 4, blockTokens: 4 });
    const sequence = alone.add(range(0, 3));
    expect(alone.cache.swapOut([sequence.table])).toBe(false);
    expect(alone.cache.swapOut([])).toBe(true);
  });
});

test("[KV38] what blocks are worth, and how long, goes out and back with them", () => {
  const four = manager();
  const one = four.add(range(0, 7), { retention: worth(80, { durationMs: 5 }) });
  expect(four.cache.swapOut([one.table])).toBe(true);
  expect(four.cache.swapIn([one.table])).toBe(true);
  four.remove(one);
  const [block] = four.cache.match("", Int32Array.from(range(0, 7))).blocks;
  if (block === undefined) throw new Error("Nothing came back");
  expect(four.cache.priorityOf(block)).toBe(80);
  four.cache.advance(5);
  expect(four.cache.priorityOf(block)).toBe(35);
});
