/** Made once: those that `abort` makes take a stack trace each. */
const OVER = new DOMException("This operation was aborted", "AbortError");

/**
 * A signal that is aborted when another one is, or when time runs out. Call `end` when the work is
 * over. `AbortSignal.any` is not used: Node 20 may collect such a signal while it is awaited.
 */
export class Deadline {
  readonly #stop = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #timeout: NodeJS.Timeout;
  #isLate = false;

  /** `ms` begins now. The timer does not keep the process alive. */
  constructor(ms: number, outer?: AbortSignal) {
    this.#outer = outer;
    this.#timeout = setTimeout(() => {
      this.#isLate = true;
      this.#stop.abort(OVER);
    }, ms);
    this.#timeout.unref();
    outer?.addEventListener("abort", this.#stopNow, { once: true });
    if (outer?.aborted === true) this.#stopNow();
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** Whether time ran out. */
  get isLate(): boolean {
    return this.#isLate;
  }

  /** Time begins anew. */
  refresh(): void {
    this.#timeout.refresh();
  }

  /** Aborts what is still in work, and lets go of the outer signal. */
  end(): void {
    clearTimeout(this.#timeout);
    this.#outer?.removeEventListener("abort", this.#stopNow);
    this.#stop.abort(OVER);
  }

  readonly #stopNow = (): void => this.#stop.abort(OVER);
}
