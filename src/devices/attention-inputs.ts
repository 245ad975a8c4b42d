/** Inputs of the ops of attention. Letters: ops.ts. */
import type { Activation, DeviceTensor, KvLayerIndex, KvPool } from "./device-data.ts";

/** Query rows, keys and slots of each sequence. */
export interface AttentionBatch {
  /** S. */
  readonly sequences: number;
  /** [S + 1] i32: sequence s owns query rows queryStarts[s] up to queryStarts[s + 1]. */
  readonly queryStarts: DeviceTensor;
  /**
   * [S] i32: tokens in the cache for each sequence, this step's included. 0: its rows are padding,
   * attend to nothing, and become zeros.
   */
  readonly contextLengths: DeviceTensor;
  /** [S, M] i32: block ids in position order. */
  readonly blockTables: DeviceTensor;
  /**
   * Sequences of one query row each, some of which are rows of the same draft: their contexts are
   * nearly equal. It changes how the work is divided, not the result. Default: false.
   */
  readonly rowsApart?: boolean;
  /** Most query rows of one sequence, and longest context: sizes of scratch and grids. */
  readonly queryLengthMax: number;
  readonly contextLengthMax: number;
  /**
   * [T, W] u32, optional, for token trees: bit j of row t hides the j-th query row of its own
   * sequence from query t; rows from 32 W on are not hidden, and later rows never seen. So a row of
   * zeros is causal, as all are where this is absent. A query's position is its place less the rows
   * before it that are hidden from it; a window counts from there. It must be longer than the path
   * of a tree, so that it ends in the context before this step's rows.
   */
  readonly treeMask?: DeviceTensor;
  /**
   * [S] i32, optional, beside a tree mask: the place in its sequence that bit 0 of each of the
   * sequence's rows stands for. By default that of the sequence's first query row; earlier ones let
   * the rows of a tree be sequences of their own, whose contexts are those of all rows before them.
   */
  readonly treeStarts?: DeviceTensor;
}

export interface PagedAttentionInput extends KvLayerIndex {
  readonly count: number;
  /** [T, H * D]. */
  readonly out: Activation;
  /** [T, H * D] f32. */
  readonly query: DeviceTensor;
  readonly heads: number;
  readonly cache: KvPool;
  readonly batch: AttentionBatch;
  readonly scale: number;
  /**
   * A query attends to the last `window` positions, its own included. Absent: all. Invisible
   * positions are never read: table entries of blocks without a visible position may name any
   * sequence's block, and hidden positions of other blocks may hold anything, NaN included.
   */
  readonly window?: number;
  /** Requires a `window`, larger than `sinks.tokens`; not together with a tree mask. */
  readonly sinks?: AttentionSinks;
  /** scores = cap * tanh(scores / cap) (Gemma-2). */
  readonly softcap?: number;
}

/**
 * Attention sinks: the first S = `tokens` positions stay visible, and count among the window's W. A
 * row at position p attends to positions below S (and up to p) through `query` of this, and to the
 * last W - S positions up to p through the op's own `query`; S > p - (W - S) means all up to p,
 * each once, the first S of them through `query` of this. `ropeKvWrite` makes both queries equal
 * for p < W, so that sinks change no bit of rows for which a plain window of W covers all
 * positions.
 */
export interface AttentionSinks {
  /** S, at least 1. */
  readonly tokens: number;
  /** [T, H * D] f32: `RopeKvWriteInput.sinkQuery`. */
  readonly query: DeviceTensor;
}

export interface MoveTokensInput {
  /** N. */
  readonly count: number;
  readonly cache: KvPool;
  /** G: moves of different groups touch different slots. */
  readonly groups: number;
  /** [G + 1] i32: group g owns moves starts[g] up to starts[g + 1]. */
  readonly starts: DeviceTensor;
  /** [N, 2] i32: slots, from and to. Those of one group are moved in order. */
  readonly moves: DeviceTensor;
}

/** Rope without a cache. Source: Su et al. 2021, "RoFormer". */
export interface RotateHeadsInput {
  readonly count: number;
  /** [T, C] f32, C at least H * D: the first H heads of each row are rotated in place. */
  readonly x: DeviceTensor;
  /** H. */
  readonly heads: number;
  readonly headDim: number;
  /** [T] i32. */
  readonly positions: DeviceTensor;
  /** As `RopeKvWriteInput.rope`. */
  readonly rope: DeviceTensor;
}

export interface EncoderAttentionInput {
  readonly count: number;
  /** [T, H * D]. */
  readonly out: Activation;
  /** [T, 3 * H * D] f32. Every token attends to the tokens of its own sequence. */
  readonly qkv: DeviceTensor;
  readonly heads: number;
  readonly headDim: number;
  /** [S + 1] i32. */
  readonly starts: DeviceTensor;
  readonly sequences: number;
  readonly scale: number;
  /** A token attends to those at most so many positions away, 1 or more. Absent: to all. */
  readonly reach?: number;
}
