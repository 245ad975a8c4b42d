import { describe, expect, test } from "vitest";
import { BlockTable } from "#kvcache";
import { unseenBlocks } from "../../src/kvcache/cache-shape.ts";
import { CacheManager, range } from "../support/cache-manager.ts";

const window = (tokens: number, sinkTokens = 0) => ({ tokens, sinkTokens });

describe("places that no query sees any more", () => {
  test.for([
    { what: "nothing without a window", shape: null, position: 100, from: 0, to: 0 },
    { what: "nothing inside it", shape: window(16), position: 15, from: 0, to: 0 },
    { what: "nothing while a token is seen", shape: window(16), position: 18, from: 0, to: 0 },
    { what: "a block that fell out", shape: window(16), position: 19, from: 0, to: 1 },
    { what: "all but its own", shape: window(1), position: 19, from: 0, to: 4 },
    { what: "none of the sinks", shape: window(16, 4), position: 19, from: 1, to: 2 },
    { what: "no block with a sink", shape: window(16, 5), position: 23, from: 2, to: 3 },
    { what: "nothing behind few tokens", shape: window(16, 5), position: 3, from: 2, to: 2 },
  ])("[KV39] $what", ({ shape, position, from, to }) => {
    expect(unseenBlocks(shape, 4, position)).toEqual({ from, to });
  });
});

describe("TensorRT-LLM's scenarios of windows", () => {
  test("[KV39] T 34: what fell out of the window is found by others", () => {
    const manager = new CacheManager({ blocks: 16, blockTokens: 4, windows: [window(16)] });
    const first = manager.add(range(0, 15));
    expect(first.table.length).toBe(4);
    manager.push(first, ...range(16, 19));
    expect(first.table.length).toBe(5);
    expect(manager.held(first).length).toBe(4);
    manager.remove(first);

    const second = manager.add(range(0, 6));
    expect(second.cached).toBe(6);
    manager.push(second, 50, 51);
    expect(second.table.length).toBe(3);
    manager.remove(second);

    expect(manager.pass(range(0, 9))).toBe(9);
    const third = manager.add(range(0, 14));
    expect(third.cached).toBe(14);
    manager.push(third, 60, 61);
    expect(third.table.length).toBe(5);
  });

  test("[KV40] T 35: a table that lost a block stores nothing more, the other one does", () => {
    const manager = new CacheManager({ blocks: 4, blockTokens: 4, windows: [window(8)] });
    const first = manager.add(range(0, 10));
    manager.push(first, 11);
    expect(manager.held(first).length).toBe(2);
    const second = manager.add(range(20, 27));
    expect(manager.free).toBe(0);
    expect(manager.stored(range(0, 10))).toBe(0);
    manager.remove(first);
    expect(manager.stored(range(0, 10))).toBe(0);
    manager.remove(second);
    expect(manager.stored(range(20, 27))).toBe(7);
  });

  test("[KV39] T 36: a window below a block keeps one or two", () => {
    const manager = new CacheManager({
      ...{ blocks: 8, blockTokens: 4, windows: [window(3)], prefixCaching: false },
    });
    const sequence = manager.add(range(0, 1));
    const lengths = range(2, 8).map((token) => {
      manager.push(sequence, token);
      return [sequence.table.length, manager.held(sequence).length];
    });
    expect(lengths).toEqual([
      ...[1, 1].flatMap(() => [[1, 1]]),
      ...[2, 2, 2, 2].map((length, at) => [length, at < 2 ? 2 : 1]),
      [3, 2],
    ]);
  });

  test.for([
    { tokens: 256, blocks: 5 },
    // Theirs keeps one more: it counts whole blocks, and this what a query can reach.
    { tokens: 257, blocks: 5 },
    { tokens: 258, blocks: 6 },
  ])("[KV39] T 33: with a window of $tokens no sequence holds more than $blocks of 64", (shape) => {
    const manager = new CacheManager({
      ...{ blocks: 20, blockTokens: 64, windows: [window(shape.tokens)], prefixCaching: false },
    });
    const sequence = manager.add([0]);
    let most = 0;
    for (let token = 1; token < 1000; token++) {
      manager.push(sequence, token);
      most = Math.max(most, manager.held(sequence).length);
    }
    expect(most).toBe(shape.blocks);
    expect(manager.free).toBe(20 - manager.held(sequence).length);
  });

  test("[KV39] T 37b: sinks stay, and a sequence that went past its window is still reused", () => {
    const manager = new CacheManager({ blocks: 16, blockTokens: 4, windows: [window(16, 4)] });
    const first = manager.add(range(1000, 1015));
    manager.push(first, ...range(1016, 1027));
    expect(manager.held(first).length).toBe(4);
    expect(first.table.holds(0)).toBe(true);
    expect(first.table.holds(1)).toBe(false);
    manager.remove(first);
    expect(manager.pass(range(1000, 1006))).toBe(6);
    const longer = manager.add(range(1000, 1019));
    expect(longer.cached).toBe(19);
    expect(manager.held(longer).length).toBe(4);
  });
});

describe("prefixes of which a part is not seen", () => {
  test("[KV39] are held as far as they are seen, and cost no more", () => {
    const manager = new CacheManager({ blocks: 12, blockTokens: 4, windows: [window(8)] });
    manager.pass(range(0, 39));
    const again = manager.add(range(0, 39));
    expect(again.cached).toBe(39);
    expect(manager.held(again).length).toBe(2);
    expect(manager.free).toBe(10);
  });

  test("[KV40] come from host memory once for all, also when what they continue goes", () => {
    const manager = new CacheManager({
      ...{ blocks: 8, blockTokens: 4, hostBlocks: 6, windows: [window(8)], evictionPolicy: "lru" },
    });
    manager.pass(range(0, 23));
    manager.pass(range(100, 131));
    manager.cache.takeMoves();
    const { cache } = manager;
    const tables = [new BlockTable(), new BlockTable()];
    const match = cache.match("", Int32Array.from(range(0, 23)));
    expect(match.blocks.map((block) => cache.levelOf(block))).toEqual([1, 1, 1, 1, 1]);
    for (const table of tables) cache.hold(table, match);
    for (const table of tables) cache.settle(table, match);
    // Making room for the first forgot the blocks before, and what continues them.
    expect(cache.match("", Int32Array.from(range(0, 23))).tokens).toBeLessThan(16);
    const [fifth, other] = tables.map((table) => table.get(4));
    expect(fifth).toBe(other);
    const moves = cache.takeMoves().filter(({ from }) => from === match.blocks[4]);
    expect(moves).toEqual([{ kind: "onboard", from: match.blocks[4], to: fifth }]);
    cache.audit(tables);
  });
});
