import { expect, test } from "vitest";
import { KvMirror } from "../../src/kvcache/events/kv-mirror.ts";
import { removed, stored, storedBlock } from "../support/kv-events.ts";

function follow(...events: readonly Parameters<KvMirror["apply"]>[0]["event"][]): KvMirror {
  const mirror = new KvMirror();
  mirror.apply({ id: 0, event: { type: "created", blocksPerLevel: [8, 2] } });
  for (const event of events) mirror.apply({ id: mirror.nextId, event });
  return mirror;
}

test("a stored run hangs each block below the one before it", () => {
  const mirror = follow(stored(null, 1n, 2n, 3n));
  expect(mirror.blocksPerLevel).toEqual([8, 2]);
  expect(mirror.find(1n)?.parentHash).toBeNull();
  expect(mirror.find(3n)?.parentHash).toBe(2n);
});

test("removed and cleared forget what they name, unknown hashes included", () => {
  expect(follow(stored(null, 1n, 2n), removed(2n, 9n)).size).toBe(1);
  expect(follow(stored(null, 1n, 2n), { type: "cleared", hashes: [1n, 2n] }).size).toBe(0);
});

test("an update changes what it names and leaves the rest", () => {
  const level = { newValue: 1, oldValue: 0 } as const;
  const mirror = follow(stored(null, 1n), { type: "updated", hash: 1n, level, priority: null });
  expect(mirror.find(1n)).toMatchObject({ level: 1, priority: 35 });
});

test("an event too many changes nothing, a missing one is noticed", () => {
  const mirror = follow(stored(null, 1n));
  expect(mirror.apply({ id: 1, event: removed(1n) })).toBe(true);
  expect(mirror.size).toBe(1);
  expect(mirror.apply({ id: 3, event: removed(1n) })).toBe(false);
  expect(mirror.nextId).toBe(2);
});

test("a snapshot replaces everything and says which event comes next", () => {
  const mirror = follow(stored(null, 1n));
  const snapshot = {
    nextId: 70,
    blocksPerLevel: [4],
    blocks: [{ ...storedBlock(5n), parentHash: null }],
  };
  mirror.load(snapshot);
  expect([...mirror.blocks()].map(({ hash }) => hash)).toEqual([5n]);
  expect(mirror.equals(snapshot)).toBe(true);
  expect(mirror.apply({ id: 70, event: stored(5n, 6n) })).toBe(true);
  expect(mirror.equals(snapshot)).toBe(false);
});

test.each([
  { priority: 80 },
  { level: 1 },
  { tokenIds: [1, 2, 3, 5] },
  { loraId: 0 },
  { cacheSalt: "s" },
  { extraIds: [0, 0, 0, 1] },
  { multimodalKeys: [{ hash: "ab".repeat(32), startOffset: 0 }] },
] as const)("two trees that differ in %o are not equal", (change) => {
  const mirror = follow(stored(null, 1n));
  const blocks = [{ ...storedBlock(1n, change), parentHash: null }];
  expect(mirror.equals({ nextId: 2, blocksPerLevel: [8, 2], blocks })).toBe(false);
});
