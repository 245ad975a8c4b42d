/** Simulated time: an event queue that is the `Clock` and the `Timer` of what it runs. */
import { assert, type Clock, type Timer } from "#base";

interface SimEvent {
  readonly atMs: number;
  /** Events of one time run in the order in which they were made. */
  readonly order: number;
  /** Null: cancelled. */
  run: (() => void) | null;
}

/**
 * Runs events in the order of their times. Nothing waits: the clock jumps from one to the next. The
 * same events give the same run.
 */
export class SimClock implements Clock, Timer {
  /** A binary heap, the next event first. */
  readonly #events: SimEvent[] = [];
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
    assert(ms >= 0, "Cannot run an event in the past");
    const event: SimEvent = { atMs: this.#nowMs + ms, order: this.#order++, run };
    this.#events.push(event);
    this.#rise(this.#events.length - 1);
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
      const event = this.#pop();
      if (event === null) return false;
      const { run } = event;
      if (run === null) continue;
      this.#nowMs = event.atMs;
      this.#ran++;
      run();
      return true;
    }
  }

  /** Runs all events up to a time, and stands at it. Default: until there is none left. */
  run(untilMs = Number.POSITIVE_INFINITY): void {
    while ((this.#events[0]?.atMs ?? Number.POSITIVE_INFINITY) <= untilMs && this.runNext());
    if (Number.isFinite(untilMs)) this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  #pop(): SimEvent | null {
    const first = this.#events[0];
    const last = this.#events.pop();
    if (first === undefined || last === undefined) return null;
    if (this.#events.length > 0) {
      this.#events[0] = last;
      this.#sink();
    }
    return first;
  }

  #rise(from: number): void {
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#swapIfBefore(at, parent)) return;
      at = parent;
    }
  }

  #sink(): void {
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const child = this.#isBefore(left + 1, left) ? left + 1 : left;
      if (!this.#swapIfBefore(child, at)) return;
      at = child;
    }
  }

  #swapIfBefore(a: number, b: number): boolean {
    const [first, second] = [this.#events[a], this.#events[b]];
    if (first === undefined || second === undefined || !this.#isBefore(a, b)) return false;
    this.#events[a] = second;
    this.#events[b] = first;
    return true;
  }

  #isBefore(a: number, b: number): boolean {
    const [first, second] = [this.#events[a], this.#events[b]];
    if (first === undefined || second === undefined) return false;
    return first.atMs < second.atMs || (first.atMs === second.atMs && first.order < second.order);
  }
}
