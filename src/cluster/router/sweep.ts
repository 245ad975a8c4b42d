/** What has deadlines. */
export interface Watched {
  /** Compares its deadlines with the time, in ms of `performance.now()`. */
  look(nowMs: number): void;
}

const LOOK_MS_MAX = 250;
const LOOK_MS_MIN = 5;
const LOOKS_PER_DEADLINE = 8;

/**
 * Deadlines of all requests, looked at by one timer: a timer per request, reset by each token,
 * would cost more than the token's relay.
 */
export class Sweep {
  readonly #watched = new Set<Watched>();
  readonly #timer: NodeJS.Timeout;

  /** `shortestMs`: the shortest of the deadlines. */
  constructor(shortestMs: number) {
    const everyMs = Math.max(LOOK_MS_MIN, Math.min(LOOK_MS_MAX, shortestMs / LOOKS_PER_DEADLINE));
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      // Behind the next reads: what came while the process was busy is no delay of its worker.
      setImmediate(() => {
        for (const watched of this.#watched) watched.look(nowMs);
      });
    }, everyMs);
    this.#timer.unref();
  }

  add(watched: Watched): void {
    this.#watched.add(watched);
  }

  delete(watched: Watched): void {
    this.#watched.delete(watched);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#watched.clear();
  }
}
