/** Work that Ctrl-C ended; finished results have been written. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";

  /** `done`: the finished part, e.g. `2 of 5 prompts are finished`. */
  constructor(done: string) {
    super(`interrupted: ${done}`);
  }
}

/** Ctrl-C as an AbortSignal, until disposed: the first aborts it, the second ends the process. */
export class Interruption implements Disposable {
  readonly #controller = new AbortController();
  readonly #onSignal = () => this.#controller.abort();

  constructor() {
    process.once("SIGINT", this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    process.off("SIGINT", this.#onSignal);
  }
}
