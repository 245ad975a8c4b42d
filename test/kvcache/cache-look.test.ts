import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockTable, KvCache } from "#kvcache";

const BLOCK_TOKENS = 4;

function cacheOf(blocks: number, hostBlocks = 0): KvCache {
  return new KvCache({ blocks, hostBlocks, blockTokens: BLOCK_TOKENS, partialReuse: false });
}

/** Computes a sequence; the table is held until it is released. */
function compute(cache: KvCache, tokens: readonly number[], scope = ""): BlockTable {
  const ids = Int32Array.from(tokens);
  const table = new BlockTable(scope);
  cache.adopt(table, cache.match(scope, ids));
  const wanted = cache.blocksFor(ids.length) - table.length;
  expect(cache.allocate(table, wanted)).toBe(true);
  const source = {
    length: ids.length,
    view: (start: number, end: number) => ids.subarray(start, end),
  };
  cache.publish(table, source, ids.length);
  return table;
}

/** `count` tokens that begin with `first`. */
const run = (first: number, count: number) =>
  Array.from({ length: count }, (_, at) => (at === 0 ? first : 7));

const whole = { root: null, runsMax: 100 };

test("a map tells which blocks are free, held and cached, and their priority", () => {
  const cache = cacheOf(8);
  const held = compute(cache, run(1, 8));
  const cached = compute(cache, run(2, 12));
  cache.prioritise(cached, 0, 3, 80);
  cache.release(cached);
  const [map] = cache.look({ cellsMax: 8 }).levels ?? [];
  expect(map).toMatchObject({ level: 0, blocks: 8, blocksPerCell: 1, readPerCell: 1 });
  const cells = Array.from({ length: 8 }, (_, at) => [
    ...(map?.cells.slice(at * 3, at * 3 + 3) ?? []),
  ]);
  expect(cells.slice(0, 2)).toEqual([
    [255, 0, 35],
    [255, 0, 35],
  ]);
  expect(cells.slice(2, 5)).toEqual(Array(3).fill([0, 255, 80]));
  expect(cells.slice(5)).toEqual(Array(3).fill([0, 0, 0]));
  cache.release(held);
});

test("cells of many blocks tell shares, and one block of many is not lost", () => {
  const cache = cacheOf(1000);
  const held = compute(cache, run(1, 4));
  const [map] = cache.look({ cellsMax: 10 }).levels ?? [];
  expect(map).toMatchObject({ blocks: 1000, blocksPerCell: 100, readPerCell: 100 });
  expect([...(map?.cells ?? [])]).toEqual([3, 0, 35, ...Array(27).fill(0)]);
  cache.release(held);
});

test("runs are what continues without a branch, the root's own part first", () => {
  const cache = cacheOf(32);
  const stem = run(1, 12);
  cache.release(compute(cache, [...stem, ...run(2, 8)]));
  const held = compute(cache, [...stem, ...run(3, 4)]);
  const { prefixes } = cache.look({ prefixes: whole });
  expect(prefixes).toMatchObject({ contents: 6, hiddenRuns: 0, depth: 0, complete: true });
  const [root, ...tails] = prefixes?.runs ?? [];
  expect(root).toMatchObject({ parent: -1, contents: 3, tokens: 12, below: 6 });
  expect(root?.segments).toEqual([{ contents: 3, level: 0, held: true, priority: 35 }]);
  expect(tails.map(({ parent, contents, below }) => [parent, contents, below]).sort()).toEqual([
    [0, 1, 1],
    [0, 2, 2],
  ]);
  cache.release(held);
  const later = cache.look({ prefixes: whole }).prefixes?.runs[0];
  expect(later?.segments).toEqual([{ contents: 3, level: 0, held: false, priority: 35 }]);
});

test("the smallest branches are left out, and counted where they are", () => {
  const cache = cacheOf(64);
  const stem = run(1, 4);
  for (const [first, blocks] of [
    [2, 5],
    [3, 3],
    [4, 1],
    [5, 1],
  ] as const) {
    cache.release(compute(cache, [...stem, ...run(first, blocks * BLOCK_TOKENS)]));
  }
  cache.release(compute(cache, run(9, 4)));
  const { prefixes } = cache.look({ prefixes: { root: null, runsMax: 3 } });
  expect(prefixes?.runs.map(({ below }) => below)).toEqual(expect.arrayContaining([11, 5, 3]));
  expect(prefixes?.runs[0]).toMatchObject({ hiddenRuns: 2, hiddenContents: 2 });
  expect(prefixes).toMatchObject({ contents: 12, hiddenRuns: 1, hiddenContents: 1 });
});

test("a part of the tree begins where it is asked for, and is null once that is gone", () => {
  const cache = cacheOf(16);
  cache.release(compute(cache, [...run(1, 8), ...run(2, 4)]));
  cache.release(compute(cache, [...run(1, 8), ...run(3, 8)]));
  const runs = cache.look({ prefixes: whole }).prefixes?.runs ?? [];
  const tail = runs.find(({ contents, parent }) => contents === 2 && parent === 0);
  const root = { node: tail?.node ?? -1, serial: tail?.serial ?? -1 };
  const part = cache.look({ prefixes: { root, runsMax: 9 } }).prefixes;
  expect(part).toMatchObject({ contents: 2, depth: 2 });
  expect(part?.runs).toHaveLength(1);
  expect(cache.look({ tokens: { ...root, tokensMax: 99 } }).tokens).toEqual({
    tokenIds: [...run(1, 8), ...run(3, 8)],
    skipped: 0,
  });
  expect(cache.look({ tokens: { ...root, tokensMax: 9 } }).tokens).toEqual({
    tokenIds: run(3, 8),
    skipped: 8,
  });
  cache.forgetCached();
  expect(cache.look({ prefixes: { root, runsMax: 9 } }).prefixes).toBeNull();
  expect(cache.look({ tokens: { ...root, tokensMax: 9 } }).tokens).toBeNull();
});

test("numbers that no node has are gone, not an error", () => {
  const cache = cacheOf(4);
  for (const node of [-1, 0, 3, 4, 1e9, 0.5, Number.NaN]) {
    expect(cache.look({ prefixes: { root: { node, serial: 0 }, runsMax: 1 } }).prefixes).toBeNull();
  }
});

test("salts are not told, only that there is one", () => {
  const cache = cacheOf(8);
  cache.release(compute(cache, run(1, 4), "a secret salt"));
  const { prefixes } = cache.look({ prefixes: whole });
  expect(prefixes?.runs[0]).toMatchObject({ salted: true, group: 0 });
  expect(JSON.stringify(prefixes)).not.toContain("secret");
});

test("whatever is stored, a picture has all contents, shown or counted, and parents first", () => {
  const prompts = fc.array(
    fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 4, maxLength: 24 }),
    {
      maxLength: 12,
    },
  );
  fc.assert(
    fc.property(prompts, fc.integer({ min: 1, max: 8 }), (all, runsMax) => {
      const cache = cacheOf(128);
      for (const tokens of all) cache.release(compute(cache, tokens));
      const stored = prefixesOf(all).size;
      const picture = cache.look({ prefixes: { root: null, runsMax } }).prefixes;
      const runs = picture?.runs ?? [];
      expect(picture?.contents).toBe(stored);
      expect(runs.length).toBeLessThanOrEqual(runsMax);
      const counted =
        (picture?.hiddenContents ?? 0) + sum(runs, ({ hiddenContents }) => hiddenContents);
      expect(sum(runs, ({ contents }) => contents) + counted).toBe(stored);
      runs.forEach(({ parent, segments, contents }, at) => {
        expect(parent).toBeLessThan(at);
        expect(sum(segments, (segment) => segment.contents)).toBe(contents);
      });
    }),
  );
});

/** All beginnings of whole blocks, each once. */
function prefixesOf(prompts: readonly (readonly number[])[]): Set<string> {
  const beginnings = prompts.flatMap((tokens) =>
    Array.from({ length: Math.floor(tokens.length / BLOCK_TOKENS) }, (_, at) =>
      tokens.slice(0, (at + 1) * BLOCK_TOKENS).join(),
    ),
  );
  return new Set(beginnings);
}

function sum<Item>(items: readonly Item[], value: (item: Item) => number): number {
  return items.reduce((total, item) => total + value(item), 0);
}
