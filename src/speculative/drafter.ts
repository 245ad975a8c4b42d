/** The contract of drafters that work on what a step computed: the networks beside a model. */
import type { Seed } from "#base";
import type { DraftShape } from "./draft-length.ts";
import type { TokenTree } from "./token-tree.ts";

/** How a sequence's tokens are sampled, as far as drafters follow it. Plain data. */
export interface DraftSampling {
  /** Above 0. */
  readonly temperature: number;
  /** 0: off. */
  readonly topK: number;
  /** 1: off. */
  readonly topP: number;
  /** 0: off. */
  readonly minP: number;
  /** Of the sequence. */
  readonly seed: Seed;
}

/** One sequence behind a step: what its next draft begins from. Plain data. */
export interface DraftSeed {
  /**
   * The step's rows of its newest tokens that stay, oldest first: that of the token before the
   * draft, then those of the accepted path. What the step computed for them (hidden states, keys
   * and values) can be read until the next step starts. The last one's logits gave the root.
   */
  readonly rows: Int32Array;
  /** Position of the first of these tokens; each further one is one behind the other. */
  readonly position: number;
  /** The newest token: the root of the tree. It is not in the cache yet. */
  readonly root: number;
  /** How much may be drafted. */
  readonly shape: DraftShape;
  /** Null: greedily. */
  readonly sampling: DraftSampling | null;
}

/**
 * One sequence in a step whose samples the host has not read: what the next draft of it begins from
 * once it is known how much of the last one is accepted. Plain data.
 */
export interface AheadSeed {
  /** The step's row of the token before the draft that the step verifies. */
  readonly row: number;
  /** What was sampled from it: a row of the step's samples. */
  readonly sampled: number;
  /** Nodes of that draft behind its root: they are the next rows of both. 0: there is none. */
  readonly drafted: number;
  /** [drafted + 1 and more]: parents of its nodes, as in `TokenTree`. */
  readonly parents: Int32Array;
  /** Position of the token before it. */
  readonly position: number;
  /** As in `DraftSeed`. */
  readonly shape: DraftShape;
  readonly sampling: DraftSampling | null;
}

/** Trees that are being drafted, one for each seed. */
export interface LateTrees {
  /** The nodes of a seed's tree, which are known before their tokens. */
  nodesOf(seed: number): Pick<TokenTree, "parents" | "depths">;
  /** Where the token of a node, 1, 2, ..., is among the last sampled tokens of the device. */
  sourceOf(seed: number, node: number): number;
  /** Of each seed the tokens behind its root, when the device has them. To be called once. */
  take(): Promise<readonly Int32Array[]>;
}

/**
 * Drafts for the sequences of a step: called once per step, behind its sampling and before the next
 * step starts. Whatever it answers, outputs stay the same (SP1). It keeps nothing of a sequence but
 * what lies in the sequence's blocks of the cache, so that forks, prefix hits, preemptions and ends
 * need not be told to it (SP9).
 */
export interface Drafter {
  /**
   * A tree for each seed, in order, with the seed's root: no path longer than the shape's length,
   * and no more branches than its width; null: nothing is likely. A rejection fails the step.
   */
  draft(seeds: readonly DraftSeed[]): Promise<readonly (TokenTree | null)[]>;
  /**
   * The same without waiting for the tokens, which the next step reads on the device: trees whose
   * nodes the shapes alone give. Null, or absent: it cannot, `draft` can. Those of one call are to
   * be taken before the next one.
   */
  late?(seeds: readonly DraftSeed[]): LateTrees | null;
  /**
   * The same before the host knows what was sampled: the device accepts, and drafts behind what it
   * accepted. Called in the place of `draft` and `late`, for a step with its sampling enqueued.
   */
  ahead?(seeds: readonly AheadSeed[]): LateTrees | null;
}
