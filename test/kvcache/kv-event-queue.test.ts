import { expect, test } from "vitest";
import { KvEventQueue } from "../../src/kvcache/events/kv-event-queue.ts";
import { removed, stored } from "../support/kv-events.ts";

/** A queue whose `created` is gone. */
function startedQueue(): KvEventQueue {
  const queue = new KvEventQueue([8, 2]);
  queue.flush();
  return queue;
}

test("the first event says what was created, and has number 0", () => {
  const queue = new KvEventQueue([8, 2, 0]);
  expect(queue.nextId).toBe(0);
  expect(queue.flush()).toEqual([{ id: 0, event: { type: "created", blocksPerLevel: [8, 2, 0] } }]);
  expect(queue.flush()).toEqual([]);
});

test("numbers go on from flush to flush without a gap", () => {
  const queue = startedQueue();
  queue.emit(stored(null, 1n));
  queue.emit(removed(1n));
  expect(queue.flush().map(({ id }) => id)).toEqual([1, 2]);
  queue.emit(stored(null, 2n));
  expect(queue.flush().map(({ id }) => id)).toEqual([3]);
  expect(queue.nextId).toBe(4);
});

test("stored runs that continue each other become one event (T 46)", () => {
  const queue = startedQueue();
  queue.emit(stored(null, 1n, 2n));
  queue.emit(stored(2n, 3n));
  queue.emit(stored(2n, 4n));
  expect(queue.flush().map(({ event }) => event)).toEqual([
    stored(null, 1n, 2n, 3n),
    stored(2n, 4n),
  ]);
});

test("a run at the root never continues another one", () => {
  const queue = startedQueue();
  queue.emit(stored(null, 1n));
  queue.emit(stored(null, 2n));
  expect(queue.flush()).toHaveLength(2);
});

test("neighbouring removals become one event, before what is stored next (T 2.2)", () => {
  const queue = startedQueue();
  queue.emit(removed(1n));
  queue.emit(removed(2n, 3n));
  queue.emit(stored(null, 4n));
  queue.emit(removed(5n));
  expect(queue.flush().map(({ event }) => event)).toEqual([
    removed(1n, 2n, 3n),
    stored(null, 4n),
    removed(5n),
  ]);
});

test("updates stay apart, and keep their place between others", () => {
  const queue = startedQueue();
  const updated = { type: "updated", hash: 1n, level: null, priority: null } as const;
  queue.emit(stored(null, 1n));
  queue.emit(updated);
  queue.emit(updated);
  queue.emit(stored(1n, 2n));
  expect(queue.flush().map(({ event }) => event.type)).toEqual([
    "stored",
    "updated",
    "updated",
    "stored",
  ]);
});

test("an event never grows beyond what readers take", () => {
  const queue = startedQueue();
  for (let hash = 1n; hash <= 3000n; hash++) {
    queue.emit(stored(hash === 1n ? null : hash - 1n, hash));
  }
  for (let hash = 1n; hash <= 3000n; hash++) queue.emit(removed(hash));
  const sizes = queue
    .flush()
    .map(({ event }) =>
      event.type === "stored" ? event.blocks.length : "hashes" in event && event.hashes.length,
    );
  expect(sizes).toEqual([1024, 1024, 952, 1024, 1024, 952]);
});

test("an emitted event's own lists are left as they are", () => {
  const queue = startedQueue();
  const hashes = [1n];
  queue.emit({ type: "removed", hashes });
  queue.emit(removed(2n));
  expect(hashes).toEqual([1n]);
});
