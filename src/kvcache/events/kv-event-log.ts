/**
 * The readers' side of events: a bounded log of the newest ones, for one reader that polls and any
 * number that follow. A reader that falls behind receives the range of lost events, and resumes
 * from a snapshot.
 */
import { assert, EngineError } from "#base";
import type { NumberedKvEvent } from "./kv-event.ts";

/** Events with these numbers, both included, were dropped before the reader read them. */
export interface LostKvEvents {
  readonly type: "lost";
  readonly fromId: number;
  readonly toId: number;
}

/** One item of a reader: the next event, or a range of lost ones. */
export type KvEventItem = NumberedKvEvent | LostKvEvents;

/** Whether an item is a range of lost events. */
export function isLost(item: KvEventItem): item is LostKvEvents {
  return "type" in item;
}

/** Default number of events kept. */
export const KV_EVENTS_KEPT = 10_000;

/** Most tokens in the events kept: events of long prompts are large, and these are some 80 MB. */
const TOKENS_KEPT = 2 ** 22;

/** The newest events of one cache, in order. Has no clock: a waiting caller passes a signal. */
export class KvEventLog {
  /** Most events kept. */
  readonly capacity: number;
  readonly #tokensMax: number;
  /** Ring: the event numbered `id` is at `id % capacity`; null where it was forgotten early. */
  readonly #events: (NumberedKvEvent | null)[] = [];
  /** When each was appended, at the same places; NaN: not told. */
  readonly #timesMs: number[] = [];
  #tokens = 0;
  #firstId = 0;
  readonly #waiting = new Set<() => void>();
  #nextId = 0;
  /** The first event that `takeLatest` has not handed out. */
  #nextTaken = 0;
  #closed = false;

  /** Keeps `capacity` events, and fewer where they have more tokens than `tokensMax`. */
  constructor(capacity: number = KV_EVENTS_KEPT, tokensMax: number = TOKENS_KEPT) {
    assert(Number.isInteger(capacity) && capacity > 0, "A log keeps at least one event");
    this.capacity = capacity;
    this.#tokensMax = tokensMax;
  }

  /** The number of the oldest event kept; `nextId` while there is none. */
  get firstId(): number {
    return this.#firstId;
  }

  /** The number that the next event will have. */
  get nextId(): number {
    return this.#nextId;
  }

  /** Whether there will be no more events. */
  get closed(): boolean {
    return this.#closed;
  }

  /**
   * Appends events, numbered from `nextId` on. `nowMs`: their time, by any clock. Does nothing
   * after `close`.
   */
  append(events: readonly NumberedKvEvent[], nowMs: number = Number.NaN): void {
    if (this.#closed || events.length === 0) return;
    for (const event of events) {
      assert(event.id === this.#nextId, `Event ${event.id} is out of order`);
      if (this.#nextId - this.#firstId === this.capacity) this.#forgetFirst();
      this.#events[event.id % this.capacity] = event;
      this.#timesMs[event.id % this.capacity] = nowMs;
      this.#nextId++;
      this.#tokens += tokensOf(event);
      // The newest is kept however large it is.
      while (this.#tokens > this.#tokensMax && this.#firstId < event.id) this.#forgetFirst();
    }
    this.#wakeAll();
  }

  /** When an event was appended; null: it is not kept, or the time was not told. */
  timeOf(id: number): number | null {
    if (id < this.#firstId || id >= this.#nextId) return null;
    const ms = this.#timesMs[id % this.capacity] ?? Number.NaN;
    return Number.isNaN(ms) ? null : ms;
  }

  /** Ends the log: readers end when they have read the events kept. */
  close(): void {
    this.#closed = true;
    this.#wakeAll();
  }

  /**
   * All events kept that no earlier call has returned, for one caller that polls; other readers are
   * not affected. Lost events are a gap in the numbers.
   */
  takeLatest(): readonly NumberedKvEvent[] {
    const events = this.#slice(Math.max(this.#nextTaken, this.firstId));
    this.#nextTaken = this.#nextId;
    return events;
  }

  /** As `takeLatest`, but waits for an event, the log's end or the signal where there is none. */
  async takeNext(signal?: AbortSignal): Promise<readonly NumberedKvEvent[]> {
    // Another caller may have been faster.
    while (this.#nextTaken === this.#nextId && !this.#closed && signal?.aborted !== true) {
      await this.changed(signal);
    }
    return this.takeLatest();
  }

  /**
   * Follows the events after `afterId`, -1 for all. Throws INVALID_ARGUMENT for a number not
   * reached yet: it comes from another cache.
   */
  read(afterId = -1): KvEventReader {
    if (!Number.isInteger(afterId) || afterId < -1 || afterId >= this.#nextId) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot read events: afterId must be -1 to ${this.#nextId - 1}, current value is ` +
          `${afterId}; take a snapshot`,
        { param: "afterId" },
      );
    }
    return new KvEventReader(this, afterId + 1);
  }

  /**
   * Events from `id` on, at most `most`; before them the range of lost events, where some are not
   * kept any more.
   */
  itemsFrom(id: number, most = Number.POSITIVE_INFINITY): readonly KvEventItem[] {
    const { firstId } = this;
    if (id >= firstId) return this.#slice(id, most);
    return [{ type: "lost", fromId: id, toId: firstId - 1 }, ...this.#slice(firstId, most)];
  }

  /** Settles at the next event, the end, or the signal. */
  async changed(signal?: AbortSignal): Promise<void> {
    if (this.#closed || signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake);
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  #forgetFirst(): void {
    const place = this.#firstId++ % this.capacity;
    const event = this.#events[place];
    if (event) this.#tokens -= tokensOf(event);
    this.#events[place] = null;
  }

  #slice(id: number, most = Number.POSITIVE_INFINITY): NumberedKvEvent[] {
    const place = id % this.capacity;
    const count = Math.min(most, this.#nextId - id);
    const head = this.#events.slice(place, place + count);
    const events = [...head, ...this.#events.slice(0, count - head.length)];
    return events.filter((event) => event !== null);
  }

  #wakeAll(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}

function tokensOf({ event }: NumberedKvEvent): number {
  if (event.type !== "stored") return 0;
  return event.blocks.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
}

/** Most events that a reader takes from the log at a time: a slow reader keeps them in memory. */
const TAKEN_MAX = 256;

/**
 * One reader's position in a log. `for await` yields items one by one, `take` returns several at a
 * time; a call must settle before the next one. Leaving the loop, or `return`, ends the reader,
 * also while it waits.
 */
export class KvEventReader implements AsyncIterableIterator<KvEventItem> {
  readonly #log: KvEventLog;
  readonly #ended = new AbortController();
  /** Read from the log and not yet handed out, from `#place` on. */
  #items: readonly KvEventItem[] = [];
  #place = 0;
  #nextId: number;

  /** Made by `KvEventLog.read`; `nextId`: the first event wanted. */
  constructor(log: KvEventLog, nextId: number) {
    this.#log = log;
    this.#nextId = nextId;
  }

  /** Items since the last one, at least one and at most some hundred; null at the end. */
  async take(): Promise<readonly KvEventItem[] | null> {
    if (!(await this.#fill())) return null;
    const items = this.#items.slice(this.#place);
    this.#place = this.#items.length;
    return items;
  }

  async next(): Promise<IteratorResult<KvEventItem, undefined>> {
    if (!(await this.#fill())) return { done: true, value: undefined };
    const value = this.#items[this.#place++];
    assert(value !== undefined, "A filled reader has an item");
    return { done: false, value };
  }

  async return(): Promise<IteratorResult<KvEventItem, undefined>> {
    this.#ended.abort();
    this.#items = [];
    this.#place = 0;
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Waits until there is an item; false at the end. */
  async #fill(): Promise<boolean> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      if (this.#place < this.#items.length) return true;
      if (this.#nextId < this.#log.nextId) {
        const from = Math.max(this.#nextId, this.#log.firstId);
        this.#items = this.#log.itemsFrom(this.#nextId, TAKEN_MAX);
        this.#place = 0;
        this.#nextId = Math.min(from + TAKEN_MAX, this.#log.nextId);
        return true;
      }
      if (this.#log.closed) return false;
      await this.#log.changed(signal);
    }
    return false;
  }
}
