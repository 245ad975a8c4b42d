import { intAt } from "#base";
import type { SequenceSampling } from "#sampling";
import type { Sequence } from "#scheduler";
import {
  chainOf,
  type DraftShape,
  firstBranchTokens,
  pathTo,
  type TokenTree,
  UnusedRest,
} from "#speculative";
import type {
  DraftContext,
  FollowedDraft,
  SequenceDrafter,
  WholeDraft,
} from "./sequence-drafter.ts";

/**
 * Drafts of a sequence that a grammar constrains (SP24): what another drafter makes, as far as the
 * grammar allows it, or the text that the grammar forces, where that is longer. A slow grammar gets
 * no drafts: its masks are made between steps, a mask at a time (SC30).
 */
export class GrammarDrafts implements SequenceDrafter {
  readonly #inner: SequenceDrafter;
  readonly #forcedMax: number;
  /** Whether anything is drafted, as the newest context says. */
  #foresees = true;
  /** The last draft is what the grammar forces. */
  #isForced = false;
  #likely = 0;
  /** Asking what the grammar forces takes some 50 µs in service. */
  readonly #rest = new UnusedRest();
  /** Nodes of the last draft that the scheduler knows of. */
  #proposed = 0;

  /** `forcedMax`: most tokens that are drafted since the grammar forces them. */
  constructor(inner: SequenceDrafter, forcedMax: number) {
    this.#inner = inner;
    this.#forcedMax = forcedMax;
  }

  get kind(): string {
    return this.#isForced ? "forced" : this.#inner.kind;
  }

  get whole(): WholeDraft | null {
    return this.#foresees ? this.#inner.whole : null;
  }

  get likelyTokens(): number {
    return this.#likely;
  }

  get matched(): number {
    return this.#isForced ? 0 : this.#inner.matched;
  }

  get active(): boolean {
    return this.#foresees && (this.#proposed > 0 || this.#inner.active);
  }

  begin(): DraftShape | null {
    return this.#foresees ? this.#inner.begin() : null;
  }

  next(sequence: Sequence, made: TokenTree | null, context: DraftContext): TokenTree | null {
    const { sampling } = context;
    this.#foresees = context.foresees;
    const open = this.#foresees ? this.#inner.next(sequence, made, context) : null;
    this.#isForced = false;
    this.#likely = 0;
    this.#proposed = 0;
    if (!this.#foresees || !sampling.foresees) return null;
    try {
      const draft = this.#longer(sequence, open, context);
      this.#likely = firstBranchTokens(draft);
      return draft.tokens.length === 1 ? null : draft;
    } catch {
      // The request goes on: what fails for its sampled tokens, too, fails again at their mask.
      this.#isForced = false;
      this.#likely = 0;
      return null;
    } finally {
      sampling.comeBack();
    }
  }

  allow(nodes: number): void {
    this.#inner.allow(nodes);
  }

  proposed(nodes: number): void {
    this.#proposed = nodes;
    this.#inner.proposed(this.#isForced ? 0 : nodes);
    if (this.#isForced && nodes > 0) this.#rest.used();
  }

  follow(sequence: Sequence, turnTokens: number): FollowedDraft | null {
    return this.#inner.follow(sequence, turnTokens);
  }

  verified(drafted: number, accepted: number): void {
    if (!this.#isForced) this.#inner.verified(drafted, accepted);
  }

  #longer({ tokens }: Sequence, open: TokenTree | null, context: DraftContext): TokenTree {
    const { sampling, rests } = context;
    const root = tokens.get(tokens.length - 1);
    const kept = allowedPart(open ?? chainOf(root, []), sampling);
    if (!this.#rest.drafts() && !rests) return kept;
    this.#rest.made();
    const forced = sampling.forced(this.#forcedMax);
    const length = sampling.goBehind(forced);
    this.#isForced = length > firstBranchTokens(kept);
    return this.#isForced ? chainOf(root, forced.subarray(0, length)) : kept;
  }
}

/** The nodes of a tree that a grammar allows behind their ancestors. Throws its errors. */
function allowedPart(tree: TokenTree, sampling: SequenceSampling): TokenTree {
  const { tokens, parents, depths } = tree;
  const kept = [0];
  const placeOf = new Int32Array(tokens.length).fill(-1);
  placeOf[0] = 0;
  for (let node = 1; node < tokens.length; node++) {
    if (intAt(placeOf, intAt(parents, node)) < 0) continue;
    if (sampling.goBehind(pathTo(tree, node)) < intAt(depths, node)) continue;
    placeOf[node] = kept.push(node) - 1;
  }
  if (kept.length === tokens.length) return tree;
  return {
    tokens: Int32Array.from(kept, (node) => intAt(tokens, node)),
    parents: Int32Array.from(kept, (node) =>
      node === 0 ? -1 : intAt(placeOf, intAt(parents, node)),
    ),
    depths: Int32Array.from(kept, (node) => intAt(depths, node)),
  };
}
