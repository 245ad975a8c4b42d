/** What the index answers: how much of a prompt each worker has, and where. */
import type { KvScope } from "./kv-change.ts";

/** A worker's number in the index, from 0; numbers of workers that left are given again. */
export type WorkerNumber = number;

/**
 * The leading blocks of a prompt that one worker has. Cumulative: `levels[1]` counts the leading
 * blocks that are in device or host memory, `levels[2]` those that are anywhere.
 */
export interface PrefixMatch {
  readonly worker: WorkerNumber;
  /** Leading blocks on the device; on the device or in host memory; on any level. */
  readonly levels: readonly [number, number, number];
}

/** A prompt as a scope cuts it: a 64-bit name per full block, each naming all tokens up to it. */
export interface PromptBlocks {
  readonly scope: KvScope;
  /** Low and high halves, as in `BlockNames`; the index's own names, the same for all workers. */
  readonly keys: Uint32Array;
}

/** Finds prefixes. Implementations: the index of events, and the approximate one. */
export interface PrefixLookup {
  /** Cuts and names a prompt; the last block is left out where it is not full. */
  blocksOf(scope: KvScope, tokens: Uint32Array): PromptBlocks;
  /** Workers that have at least the first block, in no order. */
  find(prompt: PromptBlocks): readonly PrefixMatch[];
}
