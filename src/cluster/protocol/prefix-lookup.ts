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

/** A prompt in one group of layers; all groups of a model cut it into blocks of one size. */
export interface GroupBlocks {
  readonly prompt: PromptBlocks;
  /** Most positions that a token of the group sees, its own included; null: all before it. */
  readonly windowTokens: number | null;
}

/** Finds prefixes. Implementations: the index of events, and the approximate one. */
export interface PrefixLookup {
  /**
   * Cuts and names a prompt; the last block is left out where it is not full. `known` names a
   * beginning of the same tokens in the same scope, and spares naming it again.
   */
  blocksOf(scope: KvScope, tokens: Uint32Array, known?: PromptBlocks): PromptBlocks;
  /** Workers that have at least the first block, in no order. */
  find(prompt: PromptBlocks): readonly PrefixMatch[];
  /**
   * For models of several groups of layers: a prefix counts as far as every group has it, where a
   * group with a window needs no more than the blocks that the next token still sees.
   */
  findGroups(groups: readonly GroupBlocks[]): readonly PrefixMatch[];
}
