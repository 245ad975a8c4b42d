/** Simulated time: an event queue that is the `Clock` and the `Timer` of what it runs. */
import { assert, type Clock, type Timer } from "#base";

interface SimEvent {
  /** Null: cancelled. */
  run: (() => void) | null;
}

/**
 * Runs events in the order of their times. Nothing waits: the clock jumps from one to the next. The
 * same events give the same run.
 */
export class SimClock implements Clock, Timer {
  /**
   * A binary heap, the next event first: events of one time run in the order in which they were
   * made. Times and orders lie beside the events, since most of the work is to compare them.
   */
  readonly #events: SimEvent[] = [];
  readonly #times: number[] = [];
  readonly #orders: number[] = [];
  #nowMs = 0;
  #order = 0;
  #ran = 0;

  nowMs(): number {
    return this.#nowMs;
  }

  /** Events that have not run, cancelled ones included. */
  get pending(): number {
    return this.#events.length;
  }

  /** Events that ran. */
  get ran(): number {
    return this.#ran;
  }

  after(ms: number, run: () => void): () => void {
    return this.atExactly(this.#nowMs + ms, run);
  }

  /** Runs an event at a sum of times that was made elsewhere, without rounding it anew. */
  atExactly(atMs: number, run: () => void): () => void {
    assert(atMs >= this.#nowMs, "Cannot run an event in the past");
    const event: SimEvent = { run };
    this.#rise(event, atMs, this.#order++);
    return () => {
      event.run = null;
    };
  }

  /** Runs an event at a time, not before now. */
  at(ms: number, run: () => void): () => void {
    return this.after(Math.max(0, ms - this.#nowMs), run);
  }

  /** Runs the next event. False: there is none. */
  runNext(): boolean {
    for (;;) {
      const atMs = this.#times[0];
      const event = this.#pop();
      if (event === null || atMs === undefined) return false;
      const { run } = event;
      if (run === null) continue;
      this.#nowMs = atMs;
      this.#ran++;
      run();
      return true;
    }
  }

  /** Runs all events up to a time, and stands at it. Default: until there is none left. */
  run(untilMs = Number.POSITIVE_INFINITY): void {
    while ((this.#times[0] ?? Number.POSITIVE_INFINITY) <= untilMs && this.runNext());
    if (Number.isFinite(untilMs)) this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  #pop(): SimEvent | null {
    const first = this.#events[0];
    const last = this.#events.pop();
    const atMs = this.#times.pop();
    const order = this.#orders.pop();
    if (first === undefined || last === undefined) return null;
    if (this.#events.length > 0) this.#sink(last, atMs ?? 0, order ?? 0);
    return first;
  }

  /** Adds an event at the end, and moves those that come later down to make its place. */
  #rise(event: SimEvent, atMs: number, order: number): void {
    let at = this.#events.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#comesLater(parent, atMs, order)) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#put(at, event, atMs, order);
  }

  /** Puts an event in place of the first one, or further down behind those that come before it. */
  #sink(event: SimEvent, atMs: number, order: number): void {
    const { length } = this.#events;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= length) break;
      const right = child + 1;
      if (right < length && this.#comesLater(child, this.#timeAt(right), this.#orderAt(right))) {
        child = right;
      }
      if (this.#comesLater(child, atMs, order)) break;
      this.#move(child, at);
      at = child;
    }
    this.#put(at, event, atMs, order);
  }

  #comesLater(place: number, atMs: number, order: number): boolean {
    const time = this.#timeAt(place);
    return time > atMs || (time === atMs && this.#orderAt(place) > order);
  }

  #timeAt(place: number): number {
    return this.#times[place] ?? 0;
  }

  #orderAt(place: number): number {
    return this.#orders[place] ?? 0;
  }

  #move(from: number, to: number): void {
    const event = this.#events[from];
    if (event !== undefined) this.#put(to, event, this.#timeAt(from), this.#orderAt(from));
  }

  #put(place: number, event: SimEvent, atMs: number, order: number): void {
    this.#events[place] = event;
    this.#times[place] = atMs;
    this.#orders[place] = order;
  }
}
