/** Something that must be closed. */
interface Closable {
  close(): Promise<void>;
}

/**
 * A part that was given, or that is opened by its name at its first use. What was given stays its
 * owner's to close. One that failed to open is opened again by the next use.
 */
export class LazyPart<T extends object> {
  readonly #part: T | string;
  readonly #open: (name: string) => Promise<T & Closable>;
  #opened: Promise<T & Closable> | null = null;

  constructor(part: T | string, open: (name: string) => Promise<T & Closable>) {
    this.#part = part;
    this.#open = open;
  }

  /** Rejects with what opening rejects with. */
  get(): Promise<T> {
    const part = this.#part;
    if (typeof part !== "string") return Promise.resolve(part);
    this.#opened ??= this.#open(part).catch((error: unknown) => {
      this.#opened = null;
      throw error;
    });
    return this.#opened;
  }

  /** Closes what was opened by name. */
  async close(): Promise<void> {
    // What could not be opened has failed the call that needed it.
    const opened = await this.#opened?.catch(() => null);
    await opened?.close();
  }
}
