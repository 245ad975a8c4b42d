/**
 * How far the reader of a stream is behind. Tokens wait here instead of being lost, so their
 * memory is bounded by computing no more of them: the request pauses until its reader has read on.
 */

/** So many entries beside tokens take about the memory of one more token. */
const LOGPROBS_PER_TOKEN = 4;

/** What of an item takes memory. */
export interface Waiting {
  readonly tokenIds: readonly number[];
  readonly logprobs: readonly { readonly top: readonly unknown[] }[] | null;
}

export interface ReaderLagOptions {
  /** More unread tokens than this pause the request; half of it resumes it. */
  readonly tokensMax: number;
  /** Called at each crossing. */
  readonly setPaused: (paused: boolean) => void;
}

/** Counts what is pushed and not yet taken, in tokens; their log-probabilities count as more. */
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
