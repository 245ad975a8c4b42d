import type { SequenceSampling } from "#sampling";
import type { Sequence } from "#scheduler";
import type { DraftShape, FollowedBranch, TokenTree } from "#speculative";

/** The largest draft of a network. */
export interface WholeDraft {
  /** What drafts. */
  readonly kind: string;
  /** [nodes]: depths, the root's first, in the order of the tree. */
  readonly depths: Int32Array;
  /** Drafted tokens of the likeliest continuation. */
  readonly firstBranch: number;
}

/** What a draft is chosen by. */
export interface DraftContext {
  /** Of the sequence, behind its newest token. */
  readonly sampling: SequenceSampling;
  /** Whether drafts are made of sequences under a grammar: that takes the host's time. */
  readonly foresees: boolean;
  /** Whether few steps have drafts at all, since none are used: those that do have all of them. */
  readonly rests: boolean;
  /** Whether measured costs decide what is verified; else all that is drafted is. */
  readonly adaptive: boolean;
  /** Whether a network drafted to learn how well it does: its draft is to be verified. */
  readonly triesNetwork: boolean;
  /** Tokens of a drafter's newest draft that are expected to be accepted. */
  expected(draft: TokenTree, drafter: SequenceDrafter): number;
}

/** What became of a looked-up draft that no step verified. */
export interface FollowedDraft extends FollowedBranch {
  /** What made it. */
  readonly kind: string;
}

/** Drafts the tokens of one sequence, and remembers how well that went. */
export interface SequenceDrafter {
  /** What made the last draft: sequences of one kind learn from each other's acceptance. */
  readonly kind: string;
  /** What a network makes for it, at most; null: no network drafts for it. */
  readonly whole: WholeDraft | null;
  /** Tokens of the last draft's likeliest continuation. */
  readonly likelyTokens: number;
  /** Where it was looked up: tokens of the sequence that match before it; else 0. */
  readonly matched: number;
  /** Whether the next step may have a draft: it is planned when all tokens are known. */
  readonly active: boolean;
  /**
   * A step that samples for the sequence begins. Returns what the model's drafter shall make behind
   * its tokens; null: nothing.
   */
  begin(): DraftShape | null;
  /**
   * What may follow the sequence's newest token, the root; null: nothing is likely. `made`: by the
   * model's drafter.
   */
  next(sequence: Sequence, made: TokenTree | null, context: DraftContext): TokenTree | null;
  /**
   * Most nodes that a network drafts behind steps that begin from now on; 0: none. Default: as many
   * as there are in its whole draft.
   */
  allow(nodes: number): void;
  /** Of the last draft, so many nodes are proposed to the scheduler. */
  proposed(nodes: number): void;
  /**
   * The sequence grew: what it goes on with is compared with what was looked up and not verified.
   * One token in `turnTokens` is looked up where nothing is being compared. Returns what the
   * comparison shows; null: nothing.
   */
  follow(sequence: Sequence, turnTokens: number): FollowedDraft | null;
  /** Records that of `drafted` nodes, the first ones of the draft, a path was accepted. */
  verified(drafted: number, accepted: number): void;
}
