import type { Timer } from "#base";

/** So many sequences at once bring every token when it comes. */
const UNPACED_MAX = 8;

/**
 * How much longer tokens wait for each other with each sequence more: some six times what handing
 * on a piece costs, most of which is the system's write.
 */
const MS_PER_SEQUENCE = 0.2;

/** Readers see no longer silence than this because of others. */
const INTERVAL_MAX_MS = 50;

/** Who has tokens that wait. */
export interface Paced {
  /** Hands them on. */
  flush(): void;
}

/**
 * Lets tokens of one stream wait for each other where many are read at once: each piece costs the
 * same however many tokens it has, and what is saved is there for new requests. A first token never
 * waits, and neither does an end.
 */
export class Pacer {
  readonly #timer: Timer;
  #sequences = 0;
  #waiting = new Set<Paced>();
  #cancel: (() => void) | null = null;

  constructor(timer: Timer) {
    this.#timer = timer;
  }

  /** How long tokens wait; 0: they do not. */
  get intervalMs(): number {
    if (this.#sequences <= UNPACED_MAX) return 0;
    return Math.min(INTERVAL_MAX_MS, this.#sequences * MS_PER_SEQUENCE);
  }

  enter(sequences: number): void {
    this.#sequences += sequences;
  }

  /** The request has ended, and what it had waiting with it. */
  leave(request: Paced, sequences: number): void {
    this.#sequences -= sequences;
    this.#waiting.delete(request);
  }

  /** Nobody reads these sequences for now: they make no work, so others need not wait for them. */
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
