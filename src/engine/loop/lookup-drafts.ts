import { TREE_NODES_MAX } from "#base";
import type { Sequence } from "#scheduler";
import {
  DraftLength,
  type DraftShape,
  type Lookup,
  type TokenTree,
  treeOf,
  UnusedRest,
} from "#speculative";
import type { DraftContext, SequenceDrafter } from "./sequence-drafter.ts";

/** Looks up what may follow one sequence, and remembers how well that went. */
export class LookupDrafts implements SequenceDrafter {
  readonly #lookup: Lookup;
  readonly #width: number;
  readonly #length: DraftLength;
  readonly #rest = new UnusedRest();
  readonly #kind: string;
  readonly whole = null;
  /** Tokens of the last draft's first continuation. */
  #first = 0;
  /** Nodes of the last draft that the scheduler knows of. */
  #proposed = 0;

  /** `kind`: texts of one kind are about as likely to be repeated. */
  constructor(kind: string, lookup: Lookup, { length, width }: DraftShape) {
    this.#kind = kind;
    this.#lookup = lookup;
    this.#width = width;
    this.#length = new DraftLength(length);
  }

  get kind(): string {
    return this.#lookup.isEarlier ? "earlier" : this.#kind;
  }

  get likelyTokens(): number {
    return this.#first;
  }

  get active(): boolean {
    return this.#proposed > 0;
  }

  begin(): null {
    return null;
  }

  next({ tokens }: Sequence, _made: TokenTree | null, { rests }: DraftContext): TokenTree | null {
    const length = this.#rest.drafts() || rests ? this.#length.next() : 0;
    const width = this.#width;
    const branches = length === 0 ? [] : this.#lookup.draft(tokens, { length, width });
    this.#first = branches[0]?.length ?? 0;
    this.#proposed = 0;
    if (this.#first === 0) return null;
    this.#rest.made();
    return treeOf(tokens.get(tokens.length - 1), branches, TREE_NODES_MAX);
  }

  allow(): void {}

  proposed(nodes: number): void {
    this.#proposed = nodes;
    if (nodes > 0) this.#rest.used();
  }

  verified(drafted: number, accepted: number): void {
    this.#length.verified(Math.min(drafted, this.#first), accepted);
  }
}
