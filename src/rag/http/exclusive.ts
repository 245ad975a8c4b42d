/** Work on the same thing, one after the other. */
export class Exclusive {
  readonly #last = new Map<string, Promise<void>>();

  /** Runs when all earlier work of the same key has ended, failed or not. */
  async run<Result>(key: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#last.get(key) ?? Promise.resolve();
    const running = before.then(work);
    const ended = running.then(
      () => {},
      () => {}, // its caller is told
    );
    this.#last.set(key, ended);
    try {
      return await running;
    } finally {
      if (this.#last.get(key) === ended) this.#last.delete(key);
    }
  }

  /** Settles when no work is left. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }
}
