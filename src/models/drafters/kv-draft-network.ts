import type { DeviceTensor, KvPool } from "#devices";
import type { StepInput } from "../step-input.ts";
import type { Streaming } from "../streaming.ts";
import type { BranchDraw } from "./draft-draws.ts";
import type { DraftNetworkLimits } from "./draft-network.ts";
import type { StartedChains } from "./started-trees.ts";

/** How a drafter's keys and values of a token are kept: a pool of blocks beside the base's. */
export interface KvShape {
  readonly layers: number;
  readonly kvHeads: number;
  readonly headDim: number;
}

/** The steps and chains that a network's memory is allocated for. */
export interface KvDraftLimits extends DraftNetworkLimits {
  /** T, S and M of the base's steps, and rows of their tree masks: `DecoderLimits`. */
  readonly stepTokensMax: number;
  readonly stepSequencesMax: number;
  readonly blocksPerSequenceMax: number;
  readonly treeTokensMax: number;
  readonly blockTokens: number;
  /** Most positions of a sequence, of which later ones are drafted as if they were the last. */
  readonly contextTokensMax: number;
  /** The longest served sequence, whatever memory there is: `DecoderOptions.servedTokens`. */
  readonly servedTokens: number;
  /** Positions that the blocks of the group keep that the network's are in; null: all. */
  readonly streaming: Streaming | null;
}

/** One chain that is drafted. */
export interface DraftContext {
  /** The filled step's row of the token before the root. */
  readonly row: number;
  /** The newest token, whose keys and values are not in the cache yet, and its position. */
  readonly root: number;
  readonly position: number;
  /** L: tokens to be drafted. */
  readonly length: number;
  /** Which token is the chain's first: 0 for the best. Others are the best. */
  readonly rank: number;
  /** Best is what this draws; null: the likeliest. */
  readonly draw: BranchDraw | null;
  /**
   * Blocks in position order, with those of L positions from the root's on: the network writes
   * there, and no sequence reads it.
   */
  readonly table: Int32Array;
}

/**
 * A network that drafts from keys and values of its own, one for each token, in a pool whose blocks
 * have the ids of the base's. What it writes of a token depends on the sequence's tokens up to this
 * one only, as the base's keys and values do: so a block that is found, copied, moved or released
 * is right for both.
 */
export interface KvDraftNetwork {
  readonly limits: KvDraftLimits;
  /**
   * Whether chains write the first slot of a sequence, too: its block is then scratch in the table
   * of a chain, with a copy of its contents, as long as all positions are seen (`seesAll`).
   */
  readonly takesFirstSlot: boolean;
  /**
   * Enqueues the keys and values of all tokens of a step, behind the base's forward pass of it.
   * `sampled`: of `Decoder.stage`.
   */
  fill(step: StepInput, cache: KvPool, sampled: DeviceTensor): void;
  /** Enqueues a continuation of each context, of its length: `chainsMax` at most. */
  chains(contexts: readonly DraftContext[], cache: KvPool): StartedChains;
  /**
   * Enqueues chains of many sizes, the largest among them, so that ops allocate their memory, or a
   * device captures them. They have no slots, and read the first block of `cache`.
   */
  runSizes(cache: KvPool): void;
}

/** Whether a token at `position` sees all before it, whatever window there is. */
export function seesAll({ streaming }: Pick<KvDraftLimits, "streaming">, position: number) {
  return streaming === null || position < streaming.window;
}

/** R: most chains at a time. */
export function chainsMax({ sequencesMax, widthMax }: DraftNetworkLimits): number {
  return sequencesMax * widthMax;
}
