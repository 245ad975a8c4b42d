import type { Clock } from "#base";

export interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly failuresMax: number;
  readonly openMs: number;
  readonly clock: Clock;
}

/** Takes requests; takes none; takes one, which decides. */
export type BreakerState = "closed" | "open" | "half-open";

/**
 * Keeps requests away from a worker that fails. After `failuresMax` failures in a row it opens for
 * `openMs`; then one request tries the worker, and closes it or opens it again: with the first
 * token of a stream, since others would be refused for as long as it lasts.
 */
export class CircuitBreaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #openUntilMs: number | null = null;
  #trying = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get state(): BreakerState {
    if (this.#openUntilMs === null) return "closed";
    return this.#options.clock.nowMs() < this.#openUntilMs ? "open" : "half-open";
  }

  /** Whether a request may go to the worker now. */
  get admits(): boolean {
    const { state } = this;
    return state === "closed" || (state === "half-open" && !this.#trying);
  }

  /** A request goes to the worker; each ends with one of `succeeded`, `failed`, `undecided`. */
  begin(): void {
    if (this.state === "half-open") this.#trying = true;
  }

  /** The worker that is tried answers: others may come, and its next failure opens it again. */
  answering(): void {
    if (!this.#trying) return;
    this.#trying = false;
    this.#openUntilMs = null;
    this.#failures = this.#options.failuresMax - 1;
  }

  succeeded(): void {
    this.#failures = 0;
    this.#openUntilMs = null;
    this.#trying = false;
  }

  /** Returns whether this failure has opened it. */
  failed(): boolean {
    this.#failures++;
    const wasTrying = this.#trying;
    this.#trying = false;
    if (this.#openUntilMs !== null && !wasTrying) return false;
    if (this.#failures < this.#options.failuresMax && !wasTrying) return false;
    this.#openUntilMs = this.#options.clock.nowMs() + this.#options.openMs;
    return true;
  }

  /** The request ended in a way that says nothing of the worker: its client went away. */
  undecided(): void {
    this.#trying = false;
  }
}
