import { assert, EngineError } from "#base";
import { SharedPlaces } from "./answering/shared-places.ts";
import { type Duty, dutyOf, numberOf } from "./duty.ts";

/** Time for aborted requests to send their errors; after it, `drain` no longer waits for them. */
const LAST_WORDS_MS = 500;

/**
 * The running requests of one thread: limits the number of concurrent requests of all threads, and
 * lets a shutdown wait for this thread's requests or abort them.
 */
export class Admission {
  readonly #limit: number;
  readonly #places: SharedPlaces;
  readonly #place: number;
  readonly #running = new Set<AbortController>();
  readonly #waiters: (() => void)[] = [];

  /** `places`: the counters of all threads; this thread's are at `place`. */
  constructor(limit: number, places: SharedPlaces = SharedPlaces.create(1), place = 0) {
    this.#limit = limit;
    this.#places = places;
    this.#place = place;
  }

  /** The number of running requests of all threads. */
  get runningCount(): number {
    return this.#places.running;
  }

  get draining(): boolean {
    return this.#places.draining;
  }

  /** What the server does in its fleet; all threads see the same. */
  get duty(): Duty {
    return dutyOf(this.#places.duty);
  }

  set duty(duty: Duty) {
    this.#places.duty = numberOf(duty);
  }

  /**
   * Admits one request. `abortAll` aborts its controller; the caller aborts it when the client
   * disconnects. Throws SHUTTING_DOWN or QUEUE_FULL. Pairs with `leave`.
   */
  enter(): AbortController {
    if (this.draining) throw shuttingDown();
    const others = this.#places.enter(this.#place, this.#limit);
    if (others >= this.#limit) {
      throw new EngineError(
        "QUEUE_FULL",
        `Cannot accept request: at most ${this.#limit} may be in work, current value is ` +
          `${others}; try again later`,
      );
    }
    const controller = new AbortController();
    this.#running.add(controller);
    return controller;
  }

  leave(controller: AbortController): void {
    const wasRunning = this.#running.delete(controller);
    assert(wasRunning, "Cannot leave: this request is not running");
    this.#places.leave(this.#place);
    if (this.#running.size === 0) this.#wake();
  }

  /**
   * All threads reject new requests from now on; resolves when no request runs on this thread, or
   * soon after `abortAll`: requests that still run then wait for a reader, or for work that cannot
   * be stopped.
   */
  drain(): Promise<void> {
    this.#places.startDraining();
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Aborts all running requests of this thread with SHUTTING_DOWN. */
  abortAll(): void {
    for (const controller of this.#running) controller.abort(cutOff());
    const timer = setTimeout(() => this.#wake(), LAST_WORDS_MS);
    timer.unref();
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

function cutOff(): EngineError {
  return new EngineError(
    "SHUTTING_DOWN",
    "The server is shutting down and cut this answer off: it was not complete at the end of " +
      "shutdownTimeoutMs; send the request again later or elsewhere",
  );
}

function shuttingDown(): EngineError {
  return new EngineError(
    "SHUTTING_DOWN",
    "Cannot accept request: the server is shutting down; try again later or elsewhere",
  );
}
