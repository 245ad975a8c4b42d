import type { Sequence } from "#scheduler";
import type { DraftShape, TokenTree } from "#speculative";
import type { LookupDrafts } from "./lookup-drafts.ts";
import type { ModelDrafts } from "./model-drafts.ts";
import type {
  DraftContext,
  FollowedDraft,
  SequenceDrafter,
  WholeDraft,
} from "./sequence-drafter.ts";

/**
 * Lookup beside a network (SP27): of two drafts of a step the one that is expected to give more
 * tokens. While what is looked up is right as far as a network would draft, the network does not.
 */
export class MixedDrafts implements SequenceDrafter {
  readonly #lookup: LookupDrafts;
  readonly #network: ModelDrafts;
  /** Tokens of the network's likeliest continuation. */
  readonly #length: number;
  /** What made the last draft. */
  #last: SequenceDrafter;
  /** The last looked-up draft was right for as many tokens as the network drafts. */
  #isFound = false;
  /** The step that began last does without the network since lookup finds what follows. */
  #skips = false;

  /** `length`: most tokens of a continuation by the network. */
  constructor(lookup: LookupDrafts, network: ModelDrafts, length: number) {
    this.#lookup = lookup;
    this.#network = network;
    this.#length = length;
    this.#last = network;
  }

  get kind(): string {
    return this.#last.kind;
  }

  get whole(): WholeDraft | null {
    return this.#network.whole;
  }

  get likelyTokens(): number {
    return this.#last.likelyTokens;
  }

  get matched(): number {
    return this.#last.matched;
  }

  get active(): boolean {
    return this.#lookup.active || (!this.#skips && this.#network.active);
  }

  begin(): DraftShape | null {
    this.#skips = this.#isFound;
    return this.#skips ? null : this.#network.begin();
  }

  next(sequence: Sequence, made: TokenTree | null, context: DraftContext): TokenTree | null {
    const found = this.#lookup.next(sequence, null, context);
    const drafted = this.#network.next(sequence, made);
    if (found === null) this.#isFound = false;
    const expected = (draft: TokenTree | null, drafter: SequenceDrafter): number =>
      draft === null ? 0 : context.expected(draft, drafter);
    const isTry = context.triesNetwork && drafted !== null;
    const isFound = !isTry && expected(found, this.#lookup) > expected(drafted, this.#network);
    this.#last = isFound ? this.#lookup : this.#network;
    return isFound ? found : drafted;
  }

  allow(nodes: number): void {
    this.#network.allow(nodes);
  }

  proposed(nodes: number): void {
    this.#lookup.proposed(this.#last === this.#lookup ? nodes : 0);
  }

  follow(sequence: Sequence, turnTokens: number): FollowedDraft | null {
    return this.#lookup.follow(sequence, turnTokens);
  }

  verified(drafted: number, accepted: number): void {
    this.#last.verified(drafted, accepted);
    this.#isFound = this.#last === this.#lookup && accepted >= this.#length;
  }
}
