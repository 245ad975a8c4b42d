import { assert, EngineError } from "#base";

/** Who is being served: limits how many at once, and lets a shutdown wait for them or end them. */
export class Admission {
  readonly #limit: number;
  readonly #running = new Set<AbortController>();
  readonly #waiters: (() => void)[] = [];
  #draining = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /**
   * Takes one request in. Its controller is aborted when the server ends at once; the caller
   * aborts it when the client goes. Throws SHUTTING_DOWN or QUEUE_FULL. Pairs with `leave`.
   */
  enter(): AbortController {
    if (this.#draining) throw shuttingDown();
    if (this.#running.size >= this.#limit) {
      throw new EngineError(
        "QUEUE_FULL",
        `Cannot accept request: at most ${this.#limit} may be in work, current value is ` +
          `${this.#running.size}; try again later`,
      );
    }
    const controller = new AbortController();
    this.#running.add(controller);
    return controller;
  }

  leave(controller: AbortController): void {
    const wasRunning = this.#running.delete(controller);
    assert(wasRunning, "Cannot leave: this request is not running");
    if (this.#running.size > 0) return;
    for (const resolve of this.#waiters.splice(0)) resolve();
  }

  /** Refuses what comes from now on; resolves when nothing runs. */
  drain(): Promise<void> {
    this.#draining = true;
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Ends all running requests with SHUTTING_DOWN. */
  abortAll(): void {
    for (const controller of this.#running) controller.abort(shuttingDown());
  }
}

function shuttingDown(): EngineError {
  return new EngineError(
    "SHUTTING_DOWN",
    "Cannot accept request: the server is shutting down; try again later or elsewhere",
  );
}
