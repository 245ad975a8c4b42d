import { expect, test } from "vitest";
import { CacheManager, range } from "../support/cache-manager.ts";

/** Two conversations that share their first ten tokens. */
const first = range(0, 17);
const second = [...range(0, 9), ...range(100, 116)];

test("[KV41] T 29: behind the kept tokens a conversation goes first, the other one stays", () => {
  const manager = new CacheManager({ blocks: 12, blockTokens: 4 });
  expect(manager.pass(first)).toBe(0);
  expect(manager.pass(second)).toBe(10);
  expect(manager.pass(first)).toBe(17);
  expect(manager.pass(second)).toBe(26);
  expect(manager.cache.truncate("", Int32Array.from(second), 10)).toBe(4);

  // Two blocks are free; four more are wanted.
  manager.pass(range(200, 223));
  expect(manager.stored(first)).toBe(17);
  // Its third block has tokens that were kept, so it stays as it is.
  expect(manager.stored(second)).toBe(12);
});

test("[KV41] the last block of what is cut goes first", () => {
  const manager = new CacheManager({ blocks: 7, blockTokens: 4 });
  manager.pass(second);
  manager.cache.truncate("", Int32Array.from(second), 8);
  for (const left of [24, 20, 16]) {
    manager.add([left]);
    expect(manager.stored(second)).toBe(left);
  }
});

test("[KV41] what a sequence holds stays, and all before it", () => {
  const manager = new CacheManager({ blocks: 12, blockTokens: 4 });
  manager.pass(second);
  const holder = manager.add(second.slice(0, 17));
  expect(manager.cache.truncate("", Int32Array.from(second), 4)).toBe(3);
  manager.remove(holder);
  expect(manager.cache.truncate("", Int32Array.from(second), 4)).toBe(6);
});

test("[KV41] copies in other levels go with it; other scopes stay", () => {
  const manager = new CacheManager({ blocks: 6, blockTokens: 4, hostBlocks: 6 });
  manager.pass(first);
  manager.pass(range(200, 223));
  expect(manager.cache.truncate("other", Int32Array.from(first), 0)).toBe(0);
  expect(manager.cache.truncate("", Int32Array.from(first), 0)).toBe(5);
  const match = manager.cache.match("", Int32Array.from([...first, 0]));
  expect(match.blocks.map((block) => manager.cache.levelOf(block))).toEqual([1, 1, 1, 1]);
  for (const block of match.blocks) expect(manager.cache.priorityOf(block)).toBe(0);
});

test("[KV41] the end is not cut where another conversation goes on from it", () => {
  const manager = new CacheManager({ blocks: 12, blockTokens: 4 });
  manager.pass(second);
  expect(manager.cache.truncate("", Int32Array.from(second.slice(0, 16)), 0)).toBe(0);
  expect(manager.cache.truncate("", Int32Array.from(range(7, 9)), 0)).toBe(0);
});
