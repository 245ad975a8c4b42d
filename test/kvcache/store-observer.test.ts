import { describe, expect, test } from "vitest";
import type { KvEvent } from "#kvcache";
import { KvEventLog } from "../../src/kvcache/events/kv-event-log.ts";
import { KvMirror } from "../../src/kvcache/events/kv-mirror.ts";
import { CacheManager, range, worth } from "../support/cache-manager.ts";

type Stored = Extract<KvEvent, { readonly type: "stored" }>;

const types = (events: readonly KvEvent[]) => events.map(({ type }) => type);
const storedOf = (events: readonly KvEvent[]) =>
  events.filter((event): event is Stored => event.type === "stored");
const updatesOf = (events: readonly KvEvent[]) =>
  events.flatMap((event) => (event.type === "updated" ? [event] : []));

/** Scenarios 38 to 40 are one story, of a cache with host memory. */
function manager38() {
  const manager = new CacheManager({
    ...{ blocks: 8, blockTokens: 4, hostBlocks: 2 },
    events: "v1_block_key",
  });
  const created = manager.events();
  const first = manager.add(range(0, 9), { loraId: 42 });
  manager.store(first);
  return { manager, created, first };
}

function after38() {
  const { manager, first } = manager38();
  manager.push(first, 10);
  manager.remove(first);
  manager.events();
  return manager;
}

function after39() {
  const manager = after38();
  const both = [1, 2].map((head) => manager.add([head, 1, ...range(2, 12)]));
  const events = manager.events();
  for (const one of both) manager.remove(one);
  return { manager, events, removal: manager.events() };
}

describe("TensorRT-LLM's scenarios of events", () => {
  test("[KV33] T 38: created, then what is stored, each content once", () => {
    const { manager, created, first } = manager38();
    expect(created).toEqual([{ type: "created", blocksPerLevel: [8, 2] }]);
    const context = manager.events();
    expect(context).toMatchObject([{ type: "stored", parentHash: null }]);
    const [run] = storedOf(context);
    expect(run?.blocks.map(({ tokenIds, loraId }) => [tokenIds, loraId])).toEqual([
      [range(0, 3), 42],
      [range(4, 7), 42],
    ]);
    expect(manager.events()).toEqual([]);

    manager.push(first, 10);
    manager.remove(first);
    expect(manager.events()).toMatchObject([
      { type: "stored", parentHash: run?.blocks.at(-1)?.hash, blocks: [{ tokenIds: [8, 9] }] },
    ]);

    const same = manager.add(range(0, 8), { loraId: 42 });
    manager.store(same);
    manager.remove(same);
    expect(manager.events()).toEqual([]);
  });

  test("[KV28] T 39: three are moved to host memory, where the first of them makes room", () => {
    const { events, removal } = after39();
    expect(types(events).sort()).toEqual(["removed", "updated", "updated", "updated"]);
    const updates = updatesOf(events);
    expect(updates.map(({ level }) => level)).toEqual(
      Array.from({ length: 3 }, () => ({ newValue: 1, oldValue: 0 })),
    );
    expect(events.find(({ type }) => type === "removed")).toEqual({
      type: "removed",
      hashes: [updates[0]?.hash],
    });
    expect(removal).toMatchObject([
      { type: "stored", parentHash: null },
      { type: "stored", parentHash: null },
    ]);
    expect(storedOf(removal).map(({ blocks }) => blocks.length)).toEqual([3, 3]);
  });

  test("[KV29] T 40: one comes back, and what makes room for it moves", () => {
    const { manager } = after39();
    const sequence = manager.add([0, 1, 2, 3, 1, 1, 1, 1, 0], { loraId: 42 });
    const events = manager.events();
    // Theirs moves two, and removes one: here two blocks are free, and go first.
    expect(updatesOf(events).map(({ level }) => level)).toEqual([
      { newValue: 0, oldValue: 1 },
      { newValue: 1, oldValue: 0 },
    ]);
    expect(events.length).toBe(2);
    manager.store(sequence);
    expect(types(manager.events())).toEqual(["stored"]);
  });

  test("[KV34] T 41: a buffer of one event keeps the last", () => {
    const { manager, first } = manager38();
    const log = new KvEventLog(1);
    const fresh = new CacheManager({ blocks: 8, blockTokens: 4, events: "v1_block_key" });
    const sequence = fresh.add(range(0, 9));
    fresh.store(sequence);
    log.append(fresh.cache.takeEvents());
    expect(log.takeLatest()).toMatchObject([
      { id: 1, event: { type: "stored", parentHash: null } },
    ]);
    fresh.push(sequence, 10);
    log.append(fresh.cache.takeEvents());
    expect(log.takeLatest()).toEqual([]);
    fresh.remove(sequence);
    log.append(fresh.cache.takeEvents());
    const [last] = log.takeLatest();
    expect(last?.event).toMatchObject({ type: "stored", blocks: [{ tokenIds: [8, 9] }] });
    expect(last?.event).not.toMatchObject({ parentHash: null });
    manager.remove(first);
  });

  test("[KV35] T 42: priorities are told, and how they change", () => {
    const manager = new CacheManager({
      ...{ blocks: 8, blockTokens: 4, hostBlocks: 2 },
      events: "v1_block_key",
    });
    manager.pass(range(0, 7), { retention: worth(50) });
    const [created, stored] = manager.events();
    expect(created?.type).toBe("created");
    expect(stored).toMatchObject({
      blocks: [
        { tokenIds: range(0, 3), priority: 50 },
        { tokenIds: range(4, 6), priority: 50 },
      ],
    });
    // The tail is taken over, which is told here, and stored again.
    manager.pass(range(0, 7));
    expect(types(manager.events())).toEqual(["removed", "stored"]);
    manager.pass(range(0, 7), { retention: worth(10) });
    const events = manager.events();
    expect(types(events)).toEqual(["removed", "updated", "stored"]);
    expect(updatesOf(events).map(({ priority }) => priority)).toEqual([
      { newValue: 10, oldValue: 50 },
    ]);
    expect(storedOf(events)).toMatchObject([{ blocks: [{ priority: 10 }] }]);
  });
});

describe("a reader of the events", () => {
  /** A manager, a reader, and the check that the reader knows what the cache has. */
  function followed(shape: { readonly hostBlocks?: number } = {}) {
    const manager = new CacheManager({
      ...{ blocks: 6, blockTokens: 4, evictionPolicy: "true-priority" },
      ...shape,
      events: "sha256_cbor",
    });
    const mirror = new KvMirror();
    const follow = () => {
      const events = manager.cache.takeEvents();
      for (const event of events) mirror.apply(event);
      const snapshot = manager.cache.snapshot();
      expect(snapshot !== null && mirror.equals(snapshot)).toBe(true);
      return events.map(({ event }) => event);
    };
    follow();
    return { manager, mirror, follow };
  }

  test("[KV30] is told of everything that goes with a head", () => {
    const { manager, follow } = followed();
    const first = manager.add(range(0, 16));
    manager.store(first);
    manager.cache.prioritise(first.table, 0, 1, 10);
    manager.remove(first);
    follow();
    manager.add(range(50, 61));
    const [removed] = follow();
    expect(removed).toMatchObject({ type: "removed" });
    expect(removed?.type === "removed" && removed.hashes.length).toBe(4);
  });

  test("[KV36] is told of the end of a duration", () => {
    const { manager, follow } = followed();
    manager.pass(range(0, 7), { retention: worth(80, { durationMs: 5 }) });
    follow();
    manager.cache.advance(5);
    expect(updatesOf(follow()).map(({ priority }) => priority)).toEqual([
      { newValue: 35, oldValue: 80 },
      { newValue: 35, oldValue: 80 },
    ]);
  });

  test("[KV33] is told of another copy's worth when the best copy goes", () => {
    const { manager, follow } = followed();
    const prompt = range(0, 3);
    const [one, two] = [manager.add(prompt), manager.add(prompt)];
    manager.push(one, 4);
    manager.push(two, 4);
    manager.cache.prioritise(two.table, 0, 1, 90);
    expect(types(follow())).toEqual(["stored"]);
    manager.remove(one);
    manager.remove(two);
    manager.add(range(20, 39));
    expect(updatesOf(follow()).map(({ priority }) => priority)).toEqual([
      { newValue: 90, oldValue: 35 },
    ]);
  });

  test("[KV34] starts from a snapshot with all names and keys", () => {
    const { manager } = followed({ hostBlocks: 4 });
    const keys = { extraIds: [1, 0, 0, 0, 0, 0, 0] };
    manager.pass(range(0, 6), { keys, loraId: 3, salt: "a" });
    manager.events();
    const snapshot = manager.cache.snapshot();
    expect(snapshot?.blocksPerLevel).toEqual([6, 4]);
    expect(snapshot?.blocks.map((block) => block.extraIds ?? null)).toEqual([[1, 0, 0, 0], null]);
    expect(snapshot?.blocks[1]?.parentHash).toBe(snapshot?.blocks[0]?.hash);
    expect(snapshot?.blocks[0]).toMatchObject({ loraId: 3, cacheSalt: "a", level: 0 });
  });

  test("[KV14] is told that everything was forgotten", () => {
    const { manager, mirror, follow } = followed();
    manager.pass(range(0, 7));
    follow();
    expect(manager.cache.reset()).toBe(true);
    expect(follow()).toMatchObject([{ type: "cleared", hashes: [{}, {}] }]);
    expect(mirror.size).toBe(0);
    expect(manager.cache.reset()).toBe(true);
    expect(follow()).toEqual([]);
  });

  test("[KV33] there are no events and no snapshot without a listener", () => {
    const manager = new CacheManager({ blocks: 6, blockTokens: 4 });
    manager.pass(range(0, 7));
    expect(manager.events()).toEqual([]);
    expect(manager.cache.snapshot()).toBeNull();
  });
});
