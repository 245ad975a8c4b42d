/** How likely drafted tokens are to be accepted, by what became of earlier drafts. */
import { confirmedPath, type TokenTree } from "./token-tree.ts";

/** Depths are told apart up to here. */
const DEPTHS = 8;

interface Rate {
  hits: number;
  trials: number;
}

/** Shares of drafted tokens that were accepted, older ones counting less and less. */
export interface AcceptanceRates {
  /** [depth - 1]: of the likeliest continuation's tokens whose predecessor was accepted. */
  readonly first: readonly Rate[];
  /** [depth - 1]: of the tokens beside it. */
  readonly others: readonly Rate[];
}

/** How fast observations fade, by what they are of. */
const FADING = { sequence: 0.95, all: 0.995 };
/** Observations that the expectation before them weighs as much as. */
const PRIOR_WEIGHT = 4;
/** Expected of a kind of drafts that was never verified. */
const FIRST_EXPECTED = 0.6;
const OTHERS_EXPECTED = 0.1;

/** Of one kind of drafts: what a sequence expects before it knows better. */
export class KindAcceptance {
  readonly rates: AcceptanceRates = newRates();

  first(depth: number): number {
    return expected(this.rates.first[placeOf(depth)], FIRST_EXPECTED);
  }

  others(depth: number): number {
    return expected(this.rates.others[placeOf(depth)], OTHERS_EXPECTED);
  }
}

/** A draft of which some nodes were verified. */
export interface VerifiedDraft {
  readonly tree: TokenTree;
  /** Drafted tokens of its likeliest continuation, which are its first nodes behind the root. */
  readonly firstBranch: number;
  /** Drafted nodes that were verified: the first ones. */
  readonly drafted: number;
  /** The tokens that the step gave, the last of which was not drafted. */
  readonly tokenIds: readonly number[];
}

/** Of one sequence. */
export class SequenceAcceptance {
  readonly #kind: KindAcceptance;
  readonly #rates: AcceptanceRates = newRates();

  constructor(kind: KindAcceptance) {
    this.#kind = kind;
  }

  /** The probability that each node behind the root is accepted, [nodes - 1]. */
  survivals({ depths }: Pick<TokenTree, "depths">, firstBranch: number): Float64Array {
    const found = new Float64Array(depths.length - 1);
    let [along, before] = [1, 1];
    for (let place = 0; place < found.length; place++) {
      const depth = depths[place + 1] ?? 1;
      if (place < firstBranch) {
        before = this.#first(depth, before);
        along *= before;
        found[place] = along;
      } else found[place] = this.#others(depth);
    }
    return found;
  }

  /** Takes note of what became of a draft. */
  verified(draft: VerifiedDraft): void {
    note(this.#rates, draft, FADING.sequence);
    note(this.#kind.rates, draft, FADING.all);
  }

  /** Where little is known of a depth, it is half what this sequence has at the one before. */
  #first(depth: number, before: number): number {
    const kind = this.#kind.first(depth);
    const prior = depth === 1 ? kind : (kind + before) / 2;
    return expected(this.#rates.first[placeOf(depth)], prior);
  }

  #others(depth: number): number {
    return expected(this.#rates.others[placeOf(depth)], this.#kind.others(depth));
  }
}

function note(rates: AcceptanceRates, draft: VerifiedDraft, fading: number): void {
  const { tree, firstBranch, drafted, tokenIds } = draft;
  const { depths } = tree;
  const path = confirmedPath(tree, 1 + drafted, (node) => tokenIds[depths[node] ?? 0] ?? null);
  const accepted = new Set(path);
  for (let node = 1; node <= drafted; node++) {
    const isFirst = node <= firstBranch;
    // Behind a token that was not accepted nothing was to be learned.
    if (isFirst && node > 1 && !accepted.has(node - 1)) continue;
    const rate = (isFirst ? rates.first : rates.others)[placeOf(depths[node] ?? 1)];
    if (rate === undefined) continue;
    rate.hits = fading * rate.hits + (accepted.has(node) ? 1 : 0);
    rate.trials = fading * rate.trials + 1;
  }
}

function expected(rate: Rate | undefined, before: number): number {
  const { hits, trials } = rate ?? { hits: 0, trials: 0 };
  return (hits + PRIOR_WEIGHT * before) / (trials + PRIOR_WEIGHT);
}

function placeOf(depth: number): number {
  return Math.min(depth, DEPTHS) - 1;
}

function newRates(): AcceptanceRates {
  const make = () => Array.from({ length: DEPTHS }, () => ({ hits: 0, trials: 0 }));
  return { first: make(), others: make() };
}
