import { assert, EngineError } from "#base";
import { SharedPlaces } from "./answering/shared-places.ts";

/** What requests that were ended get to say so: then nobody waits for them any longer. */
const LAST_WORDS_MS = 500;

/**
 * Who is being served by one thread: limits how many all threads serve at once, and lets a shutdown
 * wait for this one's or end them.
 */
export class Admission {
  readonly #limit: number;
  readonly #places: SharedPlaces;
  readonly #place: number;
  readonly #running = new Set<AbortController>();
  readonly #waiters: (() => void)[] = [];

  /** `places`: what all threads count, this one at `place`. */
  constructor(limit: number, places: SharedPlaces = SharedPlaces.create(1), place = 0) {
    this.#limit = limit;
    this.#places = places;
    this.#place = place;
  }

  /** Of all threads. */
  get runningCount(): number {
    return this.#places.running;
  }

  get draining(): boolean {
    return this.#places.draining;
  }

  /**
   * Takes one request in. Its controller is aborted when the server ends at once; the caller
   * aborts it when the client goes. Throws SHUTTING_DOWN or QUEUE_FULL. Pairs with `leave`.
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
   * All threads refuse what comes from now on; resolves when nothing runs on this one, or soon
   * after `abortAll`: what still runs then waits for a reader, or for something that cannot be
   * stopped.
   */
  drain(): Promise<void> {
    this.#places.startDraining();
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Ends all requests that run on this thread with SHUTTING_DOWN. */
  abortAll(): void {
    for (const controller of this.#running) controller.abort(shuttingDown());
    const timer = setTimeout(() => this.#wake(), LAST_WORDS_MS);
    timer.unref();
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

function shuttingDown(): EngineError {
  return new EngineError(
    "SHUTTING_DOWN",
    "Cannot accept request: the server is shutting down; try again later or elsewhere",
  );
}
