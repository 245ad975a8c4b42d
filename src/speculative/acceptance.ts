/** How likely drafted tokens are to be accepted, by what became of earlier drafts. */
import { confirmedPath, type TokenTree } from "./token-tree.ts";

/** Depths are told apart up to here. */
const DEPTHS = 8;
/**
 * Looked-up tokens are told apart by how many tokens match before them: each class ends with so
 * many, the last one has no end.
 */
const MATCHES = [1, 2, 3, 4, 6, 8, 12, 16, 24] as const;
/** [matching tokens]: their class. */
const MATCH_PLACES = Uint8Array.from({ length: 1 + (MATCHES.at(-1) ?? 0) }, (_, matched) =>
  MATCHES.findIndex((most) => matched <= most),
);

interface Rate {
  hits: number;
  trials: number;
}

/** Shares of drafted tokens that were accepted, older ones counting less and less. */
export interface AcceptanceRates {
  /**
   * [depth - 1], or the class of what matches before a token that was looked up: of the likeliest
   * continuation's tokens whose predecessor was accepted.
   */
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

/** Nodes less likely than this are never worth a row: they count as 0. */
export const LIKELY_MIN = 0.03;

/** Of one kind of drafts: what a sequence expects before it knows better. */
export class KindAcceptance {
  readonly rates: AcceptanceRates = newRates();

  /** `place`: of `AcceptanceRates.first`. */
  first(place: number): number {
    return expected(this.rates.first[place], FIRST_EXPECTED);
  }

  others(depth: number): number {
    return expected(this.rates.others[placeOf(depth)], OTHERS_EXPECTED);
  }
}

/** The likeliest continuation of a draft. */
export interface LikelyBranch {
  /** Drafted tokens of it, which are the draft's first nodes behind the root. */
  readonly firstBranch: number;
  /** Where it was looked up: tokens that match before it. Default: 0, it was not. */
  readonly matched?: number;
}

/** A draft of which some nodes were verified. */
export interface VerifiedDraft extends LikelyBranch {
  readonly tree: TokenTree;
  /** Drafted nodes that were verified: the first ones. */
  readonly drafted: number;
  /** The tokens that the step gave, the last of which was not drafted. */
  readonly tokenIds: readonly number[];
}

/** What became of a looked-up continuation that no step verified. */
export interface FollowedBranch {
  /** Tokens that match before the first of these. */
  readonly matched: number;
  /** Tokens of it that the sequence went on with. */
  readonly right: number;
  /** Whether another token came then. */
  readonly ended: boolean;
}

/** Of one sequence. */
export class SequenceAcceptance {
  readonly #kind: KindAcceptance;
  readonly #rates: AcceptanceRates = newRates();

  constructor(kind: KindAcceptance) {
    this.#kind = kind;
  }

  /** The probability that each node behind the root is accepted, [nodes - 1]. */
  survivals(
    { depths }: Pick<TokenTree, "depths">,
    { firstBranch, matched = 0 }: LikelyBranch,
  ): Float64Array {
    const found = new Float64Array(depths.length - 1);
    let [along, before] = [1, 1];
    for (let place = 0; place < found.length; place++) {
      const depth = depths[place + 1] ?? 1;
      if (place < firstBranch) {
        if (along < LIKELY_MIN) continue;
        before = this.#first(placeOf(depth, matched), depth === 1 ? null : before);
        along *= before;
        found[place] = along;
      } else found[place] = this.#others(depth);
    }
    return found;
  }

  /** How many nodes are accepted, on average. */
  expected(tree: Pick<TokenTree, "depths">, branch: LikelyBranch): number {
    return this.survivals(tree, branch).reduce((sum, survival) => sum + survival, 0);
  }

  /** Takes note of what became of a draft. */
  verified(draft: VerifiedDraft): void {
    const path = pathOf(draft);
    note(this.#rates, draft, { path, fading: FADING.sequence });
    note(this.#kind.rates, draft, { path, fading: FADING.all });
  }

  /** The same of one that was only compared with what the sequence went on with. */
  followed({ matched, right, ended }: FollowedBranch): void {
    const tokens = right + (ended ? 1 : 0);
    for (let depth = 1; depth <= tokens; depth++) {
      const place = placeOf(depth, matched);
      count(this.#rates.first[place], FADING.sequence, depth <= right);
      count(this.#kind.rates.first[place], FADING.all, depth <= right);
    }
  }

  /** Where little is known of a place, it is half what this sequence has at the one before. */
  #first(place: number, before: number | null): number {
    const kind = this.#kind.first(place);
    return expected(this.#rates.first[place], before === null ? kind : (kind + before) / 2);
  }

  #others(depth: number): number {
    return expected(this.#rates.others[placeOf(depth)], this.#kind.others(depth));
  }
}

function pathOf({ tree, drafted, tokenIds }: VerifiedDraft): readonly number[] {
  const { depths } = tree;
  return confirmedPath(tree, 1 + drafted, (node) => tokenIds[depths[node] ?? 0] ?? null);
}

/** `path`: accepted nodes, the root first. */
function note(
  rates: AcceptanceRates,
  { tree: { depths }, firstBranch, drafted, matched = 0 }: VerifiedDraft,
  { path, fading }: { readonly path: readonly number[]; readonly fading: number },
): void {
  const last = Math.min(drafted, firstBranch);
  let node = 1;
  // Behind a token that was not accepted nothing was to be learned.
  for (let going = true; going && node <= last; node++) {
    going = path[node] === node;
    count(rates.first[placeOf(node, matched)], fading, going);
  }
  for (node = last + 1; node <= drafted; node++) {
    const depth = depths[node] ?? 1;
    count(rates.others[placeOf(depth)], fading, path[depth] === node);
  }
}

function count(rate: Rate | undefined, fading: number, isHit: boolean): void {
  if (rate === undefined) return;
  rate.hits = fading * rate.hits + (isHit ? 1 : 0);
  rate.trials = fading * rate.trials + 1;
}

function expected(rate: Rate | undefined, before: number): number {
  const { hits, trials } = rate ?? { hits: 0, trials: 0 };
  return (hits + PRIOR_WEIGHT * before) / (trials + PRIOR_WEIGHT);
}

/** `matched`: tokens that match before the draft where it was looked up, else 0. */
function placeOf(depth: number, matched = 0): number {
  if (matched === 0) return Math.min(depth, DEPTHS) - 1;
  return MATCH_PLACES[matched + depth - 1] ?? MATCHES.length;
}

function newRates(): AcceptanceRates {
  const make = (places: number) => Array.from({ length: places }, () => ({ hits: 0, trials: 0 }));
  return { first: make(Math.max(DEPTHS, MATCHES.length + 1)), others: make(DEPTHS) };
}
