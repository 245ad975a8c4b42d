/** Waits between tries: twice as long after each failure, up to a longest, each cut by chance. */
export class BackOff {
  readonly #shortestMs: number;
  readonly #longestMs: number;
  readonly #chance: () => number;
  #nextMs: number;

  /** `chance`: from 0 up to 1; routers that lost one worker at once must not return at once. */
  constructor(
    [shortestMs, longestMs]: readonly [number, number],
    chance: () => number = Math.random,
  ) {
    this.#shortestMs = shortestMs;
    this.#longestMs = longestMs;
    this.#chance = chance;
    this.#nextMs = shortestMs;
  }

  /** The next wait, in milliseconds: between half of the present length and all of it. */
  next(): number {
    const fullMs = this.#nextMs;
    this.#nextMs = Math.min(this.#longestMs, fullMs * 2);
    return fullMs * (0.5 + this.#chance() / 2);
  }

  /** A try went well. */
  reset(): void {
    this.#nextMs = this.#shortestMs;
  }
}

/** Resolves after `ms`, or at the signal. Does not keep the process alive. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timeout);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timeout = setTimeout(end, ms);
    timeout.unref();
    signal.addEventListener("abort", end, { once: true });
  });
}
