/**
 * Changes of a worker's KV cache, in the one form that the index reads. Each dialect of events
 * (Perigee's own, vLLM's, SGLang's, TensorRT-LLM's) is translated into it by a feed.
 */

/** The levels of a worker's cache, from the nearest: device, host memory, disk and beyond. */
export type KvLevel = 0 | 1 | 2;

/**
 * What a block's keys and values depend on beside its tokens and those before it, and how tokens
 * are cut into blocks. Equal tokens of different scopes are different blocks.
 */
export interface KvScope {
  /** Workers of equal models share contents; any text that says which model it is. */
  readonly model: string;
  readonly blockTokens: number;
  /** Requests of another salt find nothing of it; null: none. */
  readonly salt: string | null;
  /** The adapter's name or number; null: the base model. */
  readonly lora: string | null;
  /** The group of layers with block tables of its own; 0 is the first, or only one. */
  readonly group: number;
}

/**
 * Names that a worker gives its blocks: 64 bits each, the low half at 2i and the high half at
 * 2i + 1. Of longer hashes feeds take 8 bytes: the last ones of vLLM's and SGLang's, the first ones
 * of TensorRT-LLM's. A name has a meaning only together with its worker: two engines may name equal
 * tokens differently. Within a worker a name says the group of layers, too:
 * feeds give equal tokens of two groups different names.
 */
export type BlockNames = Uint32Array;

/** One change, in the order of the changes. */
export type KvChange =
  /**
   * A run of blocks, each the parent of the next, that can be found from now on. Below a parent the
   * parent's salt and adapter hold, whatever `scope` says: engines name them at the root alone.
   * Runs below an unknown parent tell nothing that could be found, and are no error: feeds leave
   * out contents that are not text alone, and not what follows those. A name that is stored twice
   * on a level is there twice, and is gone after two removals.
   */
  | {
      readonly type: "stored";
      readonly scope: KvScope;
      readonly level: KvLevel;
      /** Of the block before the first; null: it begins the prompt. */
      readonly parent: BlockNames | null;
      readonly names: BlockNames;
      /**
       * `scope.blockTokens` per name. Empty: the worker did not say which tokens (vLLM's
       * placeholders for offloaded blocks); the names then mean what they meant before, or nothing.
       */
      readonly tokens: Uint32Array;
    }
  /** Blocks that left a level; null: that left all levels. */
  | { readonly type: "removed"; readonly names: BlockNames; readonly level: KvLevel | null }
  /** Blocks that moved from one level to another. */
  | {
      readonly type: "moved";
      readonly names: BlockNames;
      readonly from: KvLevel;
      readonly to: KvLevel;
    }
  /** The cache, or one level of it, is empty. */
  | { readonly type: "cleared"; readonly level: KvLevel | null };

/** What a feed tells of one worker's cache. */
export interface KvFeedSink {
  /** Changes that follow all earlier ones without a gap. */
  apply(changes: readonly KvChange[]): void;
  /**
   * The worker's contents are unknown from now on: it started anew, or events were lost. What it
   * had is forgotten; the changes that follow describe it from the beginning.
   */
  reset(reason: string): void;
  /** Something that an operator should read: a refused event, a lost connection. One line. */
  warn(message: string): void;
}

/** A source of one worker's changes. */
export interface KvFeed {
  /** Begins to follow; failures are retried until `close`, and said by `warn`. */
  start(sink: KvFeedSink): void;
  /** Number of changes behind that are known to be still on their way; null: not known. */
  readonly lag: number | null;
  close(): Promise<void>;
}
