import { assert, TREE_NODES_MAX } from "#base";
import type { Sequence } from "#scheduler";
import {
  checkTree,
  DraftRest,
  type DraftShape,
  firstBranchTokens,
  type TokenTree,
} from "#speculative";
import type { SequenceDrafter, WholeDraft } from "./sequence-drafter.ts";

/**
 * Drafts in a row of which nothing may be confirmed before the sequence rests: a good drafter's
 * first token is wrong in a third of its drafts.
 */
const MISSES_FREE = 4;

/** What a drafter beside the model makes for one sequence. */
export class ModelDrafts implements SequenceDrafter {
  readonly kind: string;
  readonly whole: WholeDraft;
  readonly matched = 0;
  readonly #shape: DraftShape;
  readonly #rest = new DraftRest(MISSES_FREE);
  #likely = 0;
  /** The shape that it may have; null: none. */
  #allowed: DraftShape | null;
  /** Whether the step that began last drafts when it is sampled. */
  #drafts = false;

  constructor(kind: string, shape: DraftShape) {
    this.kind = kind;
    this.#shape = shape;
    this.#allowed = shape;
    this.whole = { kind, depths: wholeDepths(shape), firstBranch: shape.length };
  }

  get likelyTokens(): number {
    return this.#likely;
  }

  get active(): boolean {
    return this.#drafts;
  }

  begin(): DraftShape | null {
    const shape = this.#rest.rests() ? null : this.#allowed;
    this.#drafts = shape !== null;
    return shape;
  }

  next({ tokens }: Sequence, made: TokenTree | null): TokenTree | null {
    this.#likely = 0;
    if (made === null) return null;
    checkTree(made);
    assert(
      made.tokens[0] === tokens.get(tokens.length - 1) && made.tokens.length <= TREE_NODES_MAX,
      "Cannot use a draft: its root is not the newest token, or it has too many nodes",
    );
    this.#likely = firstBranchTokens(made);
    return made.tokens.length === 1 ? null : made;
  }

  /** Few nodes are those of the likeliest continuation, which it finds with one beam. */
  allow(nodes: number): void {
    const { length, width } = this.#shape;
    if (nodes === 0) this.#allowed = null;
    else if (nodes <= length) this.#allowed = { length: nodes, width: 1 };
    else this.#allowed = { length, width: Math.min(width, Math.ceil(nodes / length)) };
  }

  proposed(): void {}

  follow(): null {
    return null;
  }

  verified(_drafted: number, accepted: number): void {
    this.#rest.verified(accepted);
  }
}

/** Depths of all nodes that a shape has room for: the first continuation, then the others. */
function wholeDepths({ length, width }: DraftShape): Int32Array {
  const depths = new Int32Array(Math.min(TREE_NODES_MAX, 1 + length * width));
  for (let node = 1; node < depths.length; node++) depths[node] = ((node - 1) % length) + 1;
  return depths;
}
