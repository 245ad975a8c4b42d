import { TREE_NODES_MAX } from "#base";
import type { Sequence } from "#scheduler";
import {
  chainOf,
  DraftLength,
  type DraftShape,
  type Lookup,
  type TokenTree,
  treeOf,
} from "#speculative";
import type { DraftContext, FollowedDraft, SequenceDrafter } from "./sequence-drafter.ts";

/** What was looked up, while the sequence goes on with it. */
interface Following {
  /** The likeliest first. */
  readonly branches: readonly Int32Array[];
  /** The likeliest one's tokens. */
  readonly tokens: Int32Array;
  /** Tokens that match before it. */
  readonly matched: number;
  /** Place of its first token in the sequence. */
  readonly start: number;
  /** Tokens of it that the sequence has. */
  right: number;
}

/**
 * Looks up what may follow one sequence, and remembers how well that went. What no step verifies is
 * compared with what the sequence goes on with (SP35): that costs next to nothing, and shows as
 * well how likely it was.
 */
export class LookupDrafts implements SequenceDrafter {
  readonly #lookup: Lookup;
  readonly #width: number;
  readonly #length: DraftLength;
  readonly #kind: string;
  readonly whole = null;
  /** Tokens of the last draft's first continuation, and those that match before it. */
  #first = 0;
  #matched = 0;
  /** Nodes of the last draft that the scheduler knows of. */
  #proposed = 0;
  #following: Following | null = null;
  #hasLooked = false;

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
    const used = this.#proposed > 0;
    this.#proposed = 0;
    if (!context.adaptive) this.#look(sequence, this.#length.next());
    else if (used) this.#look(sequence, this.#length.length);
    return this.#draft(sequence);
  }

  allow(): void {}

  proposed(nodes: number): void {
    this.#proposed = nodes;
  }

  follow(sequence: Sequence, turnTokens: number): FollowedDraft | null {
    const found = this.#compare(sequence);
    const goesOn = found !== null && !found.ended;
    const isTurn = !this.#hasLooked || goesOn || isTurnOf(sequence, turnTokens);
    if (this.#following === null && isTurn) this.#look(sequence, this.#length.length);
    return found;
  }

  verified(drafted: number, accepted: number): void {
    this.#following = null;
    this.#length.verified(Math.min(drafted, this.#first), accepted);
  }

  /** Null: nothing was followed, or no token has come. */
  #compare({ tokens }: Sequence): FollowedDraft | null {
    const known = this.#following;
    if (known === null) return null;
    const { start, tokens: expected, right: before } = known;
    let ended = false;
    while (known.right < expected.length && start + known.right < tokens.length) {
      ended = tokens.get(start + known.right) !== expected[known.right];
      if (ended) break;
      known.right++;
    }
    const right = known.right - before;
    if (ended || known.right === expected.length) {
      this.#length.followed(expected.length, known.right);
      this.#following = null;
    }
    if (right === 0 && !ended) return null;
    return { kind: this.kind, matched: known.matched + before, right, ended };
  }

  /** What is left of what is followed. */
  #draft({ tokens }: Sequence): TokenTree | null {
    const known = this.#following;
    if (known === null || known.start + known.right !== tokens.length) return null;
    const left = known.tokens.length - known.right;
    this.#first = left;
    this.#matched = known.matched + known.right;
    const root = tokens.get(tokens.length - 1);
    if (known.right > 0) return chainOf(root, known.tokens.subarray(known.right));
    return treeOf(root, known.branches, TREE_NODES_MAX);
  }

  #look({ tokens }: Sequence, length: number): void {
    this.#hasLooked = true;
    const width = this.#width;
    const branches = length === 0 ? [] : this.#lookup.draft(tokens, { length, width });
    const [first] = branches;
    this.#following = null;
    if (first === undefined || first.length === 0) return;
    const { matched } = this.#lookup;
    this.#following = { branches, tokens: first, matched, start: tokens.length, right: 0 };
  }
}

/** Whether the newest token is one of every so many of its sequence; others have theirs then. */
function isTurnOf({ id, tokens }: Sequence, turnTokens: number): boolean {
  return (id + tokens.length) % turnTokens === 0;
}
