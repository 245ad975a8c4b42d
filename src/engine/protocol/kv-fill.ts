/** Blocks that an engine is told to fetch for later requests. */

/** What it is told. */
export interface KvFillOptions {
  /** The prompt: its full blocks are wanted, but for the one with its last token. */
  readonly promptTokenIds: readonly number[];
  readonly cacheSalt: string | null;
  /**
   * Leading tokens that requests have asked for more than once: they may take the place of what
   * was used longest ago. The rest is fetched where memory is free.
   */
  readonly reusedTokens: number;
  /** Who has them stored: the other engine's `ModelInfo.kvAddress`. */
  readonly peer: { readonly host: string; readonly port: number };
  readonly deadlineMs: number;
}

/** What came of it. */
export interface KvFillResult {
  /** Leading tokens of the prompt that are stored now, and those that were before. */
  readonly storedTokens: number;
  readonly storedBefore: number;
}

/** The same as a message. */
export interface KvFill extends Omit<KvFillOptions, "promptTokenIds"> {
  /** Transferred. */
  readonly promptTokenIds: Int32Array<ArrayBuffer>;
}
