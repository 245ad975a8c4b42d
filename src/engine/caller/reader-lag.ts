/**
 * How far the reader of a stream is behind. Unread tokens are kept, and their memory is bounded by
 * pausing the request until its reader catches up.
 */

/** This many log-probabilities take about the memory of one token. */
const LOGPROBS_PER_TOKEN = 4;

/** The parts of an item that take memory. */
export interface Waiting {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly { readonly top: readonly unknown[] }[] | null;
}

export interface ReaderLagOptions {
  /** More unread tokens than this pause the request; half of it resumes it. */
  readonly tokensMax: number;
  /** Called at each change. */
  readonly setPaused: (paused: boolean) => void;
}

/** Counts items pushed and not yet taken, in tokens; log-probabilities add to the count. */
export class ReaderLag {
  readonly #options: ReaderLagOptions;
  #tokens = 0;
  #paused = false;

  constructor(options: ReaderLagOptions) {
    this.#options = options;
  }

  get paused(): boolean {
    return this.#paused;
  }

  pushed(item: Waiting): void {
    this.#tokens += weightOf(item);
    if (!this.#paused && this.#tokens > this.#options.tokensMax) this.#set(true);
  }

  taken(item: Waiting): void {
    this.#tokens -= weightOf(item);
    if (this.#paused && this.#tokens <= this.#options.tokensMax / 2) this.#set(false);
  }

  #set(paused: boolean): void {
    this.#paused = paused;
    this.#options.setPaused(paused);
  }
}

function weightOf({ tokenIds, logprobs }: Waiting): number {
  if (logprobs === null) return tokenIds.length;
  const entries = logprobs.reduce((sum, { top }) => sum + 1 + top.length, 0);
  return tokenIds.length + Math.ceil(entries / LOGPROBS_PER_TOKEN);
}
