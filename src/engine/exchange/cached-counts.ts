/** How much of the prompts that an engine computes for others was cached: known once they run. */

/** Prompts whose count is kept once it is known: who reads their blocks asks soon. */
const KEPT_MAX = 1024;
/** Questions about one offer that wait: its one reader asks once. */
const WAITERS_MAX = 8;

type Waiter = (tokens: number | null) => void;

/** Counts by the offer of the prompt's blocks. */
export class CachedCounts {
  readonly #known = new Map<string, number>();
  readonly #waiting = new Map<string, Waiter[]>();

  /** The blocks of this offer are to be computed: who asks for its count waits. */
  expect(offer: string): void {
    this.#waiting.set(offer, []);
  }

  /** The prompt has run. */
  tell(offer: string, tokens: number): void {
    this.#known.set(offer, tokens);
    const [oldest] = this.#known.keys();
    if (this.#known.size > KEPT_MAX && oldest !== undefined) this.#known.delete(oldest);
    this.#settle(offer, tokens);
  }

  /** The prompt ends, whether it has run or not. */
  end(offer: string): void {
    this.#settle(offer, null);
  }

  /** Settles when it is known; null: it will not be. */
  of(offer: string): Promise<number | null> {
    const waiters = this.#waiting.get(offer);
    if (waiters === undefined) return Promise.resolve(this.#known.get(offer) ?? null);
    if (waiters.length >= WAITERS_MAX) return Promise.resolve(null);
    return new Promise((resolve) => waiters.push(resolve));
  }

  #settle(offer: string, tokens: number | null): void {
    const waiters = this.#waiting.get(offer) ?? [];
    this.#waiting.delete(offer);
    for (const settle of waiters) settle(tokens);
  }
}
