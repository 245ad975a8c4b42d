import { expect, test } from "vitest";
import { EngineError } from "#base";
import { isLost, KvEventLog } from "../../src/kvcache/events/kv-event-log.ts";
import { KvEventQueue } from "../../src/kvcache/events/kv-event-queue.ts";
import { KvMirror } from "../../src/kvcache/events/kv-mirror.ts";
import { RandomHistory, removed, stored } from "../support/kv-events.ts";

const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, place) => ({
    id: from + place,
    event: stored(null, BigInt(from + place)),
  }));

const ids = (events: readonly { readonly id: number }[]) => events.map(({ id }) => id);

function filledLog(capacity: number, count: number): KvEventLog {
  const log = new KvEventLog(capacity);
  log.append(numbered(0, count));
  return log;
}

test("a buffer of one keeps the newest event, and the next drain gets what came since (T 41)", () => {
  const queue = new KvEventQueue([8, 2]);
  const log = new KvEventLog(1);
  queue.emit(stored(null, 1n, 2n));
  log.append(queue.flush());
  expect(log.takeLatest()).toEqual([{ id: 1, event: stored(null, 1n, 2n) }]);
  log.append(queue.flush());
  expect(log.takeLatest()).toEqual([]);
  queue.emit(stored(2n, 3n));
  log.append(queue.flush());
  expect(log.takeLatest()).toEqual([{ id: 2, event: stored(2n, 3n) }]);
});

test("an event has its time as long as it is kept, where one was told", () => {
  const log = new KvEventLog(2);
  log.append(numbered(0, 1), 5);
  log.append(numbered(1, 1));
  expect([0, 1, 2].map((id) => log.timeOf(id))).toEqual([5, null, null]);
  log.append(numbered(2, 2), 9);
  expect([0, 1, 2, 3, -1].map((id) => log.timeOf(id))).toEqual([null, null, 9, 9, null]);
});

test("a buffer of two keeps events 1 and 2 of three (T 46)", () => {
  expect(ids(filledLog(2, 3).takeLatest())).toEqual([1, 2]);
});

test("waiting gets created first, then what is stored (T 43)", async () => {
  const queue = new KvEventQueue([8, 2]);
  const log = new KvEventLog();
  const first = log.takeNext(AbortSignal.timeout(1000));
  log.append(queue.flush());
  expect((await first).map(({ event }) => event.type)).toEqual(["created"]);
  const second = log.takeNext(AbortSignal.timeout(1000));
  queue.emit(stored(null, 1n));
  queue.emit(stored(1n, 2n));
  log.append(queue.flush());
  expect(await second).toEqual([{ id: 1, event: stored(null, 1n, 2n) }]);
});

test("waiting ends with nothing at its signal, and at the log's end", async () => {
  const log = new KvEventLog();
  const stop = new AbortController();
  const signalled = log.takeNext(stop.signal);
  stop.abort();
  expect(await signalled).toEqual([]);
  const ended = log.takeNext();
  log.close();
  expect(await ended).toEqual([]);
});

test("of two waiting readers, one gets the events and the other goes on waiting", async () => {
  const log = new KvEventLog();
  const both = [log.takeNext(), log.takeNext()];
  log.append(numbered(0, 2));
  expect(ids(await Promise.race(both))).toEqual([0, 1]);
  log.append(numbered(2, 1));
  expect((await Promise.all(both)).map(ids)).toEqual([[0, 1], [2]]);
});

test("readers are independent of each other and of draining", async () => {
  const log = filledLog(100, 3);
  const early = log.read();
  const late = log.read(1);
  expect(ids(log.takeLatest())).toEqual([0, 1, 2]);
  log.append(numbered(3, 1));
  log.close();
  expect(await collect(early)).toEqual([0, 1, 2, 3]);
  expect(await collect(late)).toEqual([2, 3]);
});

test("a reader of a buffer that wrapped gets events in order", async () => {
  const log = filledLog(4, 7);
  log.close();
  expect(await collect(log.read(3))).toEqual([4, 5, 6]);
});

test("a reader that fell behind is told which events are gone, then goes on", async () => {
  const log = filledLog(3, 2);
  const reader = log.read();
  expect((await reader.next()).value).toMatchObject({ id: 0 });
  expect((await reader.next()).value).toMatchObject({ id: 1 });
  log.append(numbered(2, 7));
  expect(await reader.take()).toEqual([{ type: "lost", fromId: 2, toId: 5 }, ...numbered(6, 3)]);
});

test("large events leave early, and the loss is told", async () => {
  const log = new KvEventLog(8, 10);
  const reader = log.read();
  log.append(numbered(0, 4));
  expect(log.firstId).toBe(2);
  expect(await reader.take()).toEqual([{ type: "lost", fromId: 0, toId: 1 }, ...numbered(2, 2)]);
  log.append([{ id: 4, event: stored(null, 1n, 2n, 3n, 4n) }]);
  expect(ids(log.takeLatest())).toEqual([4]);
  log.append(numbered(5, 6));
  expect(ids(log.takeLatest())).toEqual([9, 10]);
});

test("take returns what is left after single items, and null at the end", async () => {
  const log = filledLog(8, 3);
  const reader = log.read();
  await reader.next();
  expect((await reader.take())?.length).toBe(2);
  log.close();
  expect(await reader.take()).toBeNull();
});

test("a reader that leaves while it waits is let go at once", async () => {
  const log = new KvEventLog();
  const reader = log.read();
  const waiting = reader.next();
  await reader.return();
  expect(await waiting).toEqual({ done: true, value: undefined });
  expect(await reader.next()).toEqual({ done: true, value: undefined });
});

test("a number that is still to come is refused", () => {
  const log = filledLog(8, 3);
  expect(() => log.read(3)).toThrow(EngineError);
  expect(() => log.read(3)).toThrow("afterId must be -1 to 2, current value is 3");
  expect(() => log.read(-2)).toThrow(EngineError);
  expect(() => log.read(0.5)).toThrow(EngineError);
});

test("nothing comes after the end", async () => {
  const log = filledLog(8, 1);
  log.close();
  log.append(numbered(1, 1));
  expect(await collect(log.read())).toEqual([0]);
});

test("a log refuses events that are out of order", () => {
  const log = filledLog(8, 1);
  expect(() => log.append([{ id: 2, event: removed(1n) }])).toThrow("out of order");
});

test.each([1, 2, 3, 4, 5])(
  "readers of an overflowing buffer end with the cache's own tree (seed %i)",
  async (seed) => {
    const queue = new KvEventQueue([64, 32, 16]);
    const log = new KvEventLog(16);
    const history = new RandomHistory(seed, (event) => queue.emit(event));
    const mirror = new KvMirror();
    const reader = log.read();
    let losses = 0;
    const catchUp = async () => {
      log.append(queue.flush());
      if (mirror.nextId === log.nextId) return;
      for (const item of (await reader.take()) ?? []) {
        if (!isLost(item)) {
          expect(mirror.apply(item)).toBe(true);
          continue;
        }
        losses++;
        mirror.load(history.snapshot(queue.nextId));
      }
    };
    for (let step = 1; step <= 20_000; step++) {
      history.step();
      if (step % 3 === 0) log.append(queue.flush());
      // Sometimes the reader is away for longer than the buffer reaches.
      if (step % (step % 1000 < 500 ? 9 : 100) === 0) await catchUp();
    }
    await catchUp();
    expect(losses).toBeGreaterThan(10);
    expect(mirror.size).toBe(history.size);
    expect(mirror.equals(history.snapshot(queue.nextId))).toBe(true);
  },
);

async function collect(reader: AsyncIterable<{ readonly id: number } | object>) {
  const found: (number | string)[] = [];
  for await (const item of reader) found.push("id" in item ? Number(item.id) : "lost");
  return found;
}
