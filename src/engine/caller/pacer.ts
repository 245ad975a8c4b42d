import type { Timer } from "#base";

/** Up to this many sequences, every token is delivered immediately. */
const UNPACED_MAX = 8;

/**
 * Delay added per sequence: some six times the cost of delivering one piece, most of which is the
 * system's write.
 */
const MS_PER_SEQUENCE = 0.2;

/** Longest delay, however many sequences there are. */
const INTERVAL_MAX_MS = 50;

/** A request with delayed tokens. */
export interface Paced {
  /** Delivers them. */
  flush(): void;
}

/**
 * Delays the tokens of a stream to deliver them together where many are read at once: a piece costs
 * the same however many tokens it has, and the saved time goes to new requests. First tokens and
 * ends are never delayed.
 */
export class Pacer {
  readonly #timer: Timer;
  #sequences = 0;
  #waiting = new Set<Paced>();
  #cancel: (() => void) | null = null;

  constructor(timer: Timer) {
    this.#timer = timer;
  }

  /** How long tokens are delayed; 0: not at all. */
  get intervalMs(): number {
    if (this.#sequences <= UNPACED_MAX) return 0;
    return Math.min(INTERVAL_MAX_MS, this.#sequences * MS_PER_SEQUENCE);
  }

  enter(sequences: number): void {
    this.#sequences += sequences;
  }

  /** Removes a request that has ended, with its delayed tokens. */
  leave(request: Paced, sequences: number): void {
    this.#sequences -= sequences;
    this.#waiting.delete(request);
  }

  /** Removes sequences that are not read for now: they make no work, so others need no delay. */
  pause(sequences: number): void {
    this.#sequences -= sequences;
  }

  resume(sequences: number): void {
    this.#sequences += sequences;
  }

  /** The request is flushed when the interval is over. */
  hold(request: Paced): void {
    this.#waiting.add(request);
    this.#cancel ??= this.#timer.after(this.intervalMs, () => this.#flush());
  }

  #flush(): void {
    this.#cancel = null;
    const requests = this.#waiting;
    this.#waiting = new Set();
    for (const request of requests) request.flush();
  }
}
