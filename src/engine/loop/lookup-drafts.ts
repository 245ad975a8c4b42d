import { TREE_NODES_MAX } from "#base";
import type { Sequence } from "#scheduler";
import {
  chainOf,
  DraftLength,
  type DraftShape,
  type Lookup,
  type TokenTree,
  treeOf,
  UnusedRest,
} from "#speculative";
import type { DraftContext, FollowedDraft, SequenceDrafter } from "./sequence-drafter.ts";

/** While few steps have drafts one token in so many is looked up, other ones of each sequence. */
const TURN_TOKENS = 8;

/** A continuation that was looked up, while the sequence goes on with it. */
interface Following {
  readonly tokens: Int32Array;
  /** Tokens that match before it. */
  readonly matched: number;
  /** Place of its first token in the sequence. */
  readonly start: number;
  /** Tokens of it that the sequence has. */
  right: number;
}

/** Looks up what may follow one sequence, and remembers how well that went. */
export class LookupDrafts implements SequenceDrafter {
  readonly #lookup: Lookup;
  readonly #width: number;
  readonly #length: DraftLength;
  readonly #rest = new UnusedRest();
  readonly #kind: string;
  readonly whole = null;
  /** Tokens of the last draft's first continuation, and those that match before it. */
  #first = 0;
  #matched = 0;
  /** Nodes of the last draft that the scheduler knows of. */
  #proposed = 0;
  /** What was looked up last, as long as it is right; null: nothing is. */
  #following: Following | null = null;

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

  get matched(): number {
    return this.#matched;
  }

  get active(): boolean {
    return this.#proposed > 0;
  }

  begin(): null {
    return null;
  }

  next(sequence: Sequence, _made: TokenTree | null, context: DraftContext): TokenTree | null {
    this.#first = 0;
    this.#proposed = 0;
    const { adaptive, rests } = context;
    if (adaptive && (rests || !this.#rest.drafts())) return this.#goneOn(sequence, rests);
    const length = adaptive ? this.#length.length : this.#length.next();
    return this.#look(sequence, length);
  }

  follow(sequence: Sequence, rests: boolean): FollowedDraft | null {
    const { tokens } = sequence;
    const known = this.#following;
    if (known === null) {
      if (rests && isTurnOf(sequence)) this.#look(sequence, this.#length.length);
      return null;
    }
    const before = known.right;
    let ended = false;
    while (known.right < known.tokens.length && known.start + known.right < tokens.length) {
      ended = tokens.get(known.start + known.right) !== known.tokens[known.right];
      if (ended) break;
      known.right++;
    }
    const right = known.right - before;
    if (right === 0 && !ended) return null;
    const found = { kind: this.kind, matched: known.matched + before, right, ended };
    if (!ended && known.right < known.tokens.length) return found;
    this.#following = null;
    this.#length.followed(known.tokens.length, known.right);
    if (rests && !ended) this.#look(sequence, this.#length.length);
    return found;
  }

  allow(): void {}

  proposed(nodes: number): void {
    this.#proposed = nodes;
    if (nodes > 0) this.#rest.used();
  }

  verified(drafted: number, accepted: number): void {
    this.#following = null;
    this.#length.verified(Math.min(drafted, this.#first), accepted);
  }

  /** What is left of the continuation that is followed. */
  #goneOn(sequence: Sequence, rests: boolean): TokenTree | null {
    const { tokens } = sequence;
    if (this.#following === null && rests && isTurnOf(sequence)) {
      return this.#look(sequence, this.#length.length);
    }
    const known = this.#following;
    if (known === null || known.start + known.right !== tokens.length) return null;
    const left = known.tokens.subarray(known.right);
    this.#first = left.length;
    this.#matched = known.matched + known.right;
    return chainOf(tokens.get(tokens.length - 1), left);
  }

  #look({ tokens }: Sequence, length: number): TokenTree | null {
    const width = this.#width;
    const branches = length === 0 ? [] : this.#lookup.draft(tokens, { length, width });
    const [first] = branches;
    this.#following = null;
    this.#first = first?.length ?? 0;
    if (first === undefined || first.length === 0) return null;
    this.#matched = this.#lookup.matched;
    this.#following = { tokens: first, matched: this.#matched, start: tokens.length, right: 0 };
    this.#rest.made();
    return treeOf(tokens.get(tokens.length - 1), branches, TREE_NODES_MAX);
  }
}

function isTurnOf({ id, tokens }: Sequence): boolean {
  return (id + tokens.length) % TURN_TOKENS === 0;
}
