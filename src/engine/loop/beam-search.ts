/**
 * Beam search over the likeliest continuations: which beams continue with which token, which are
 * finished, and when no better one is possible. The rules are those of Hugging Face's transformers
 * 5, so that the same model gives the same sequences and scores.
 */
import { assert, EngineError } from "#base";
import type { SamplingParams, TokenCandidates } from "#sampling";
import type { StopRules } from "#scheduler";

/** How wide to search, and when to stop. */
export interface BeamSearchOptions {
  /** Beams that continue after each step. */
  readonly width: number;
  /** A finished beam's score is the sum of its log-probabilities / length ** lengthPenalty. */
  readonly lengthPenalty: number;
  /**
   * When `width` beams are finished, the search ends: `true` at once; `false` unless the best live
   * beam would beat the worst finished one if it ended now; `"never"` unless it could do so at the
   * best length it can still have.
   */
  readonly earlyStopping: SamplingParams["earlyStopping"];
  /** How many of the finished beams `result` gives. At most `width`. */
  readonly returned: number;
  /** Most tokens of a beam; live beams of that length are finished as they are. */
  readonly newTokensMax: number;
  /** End and stop tokens, `minTokens` and `ignoreEos`; the other rules are ignored. */
  readonly stop: StopRules;
}

/** A live beam of the next step: which beam of this step it continues, and with what. */
export interface BeamChoice {
  /** That beam's place in the step before, from 0. */
  readonly parent: number;
  readonly tokenId: number;
}

/** What one step decided. */
export interface BeamStep {
  /**
   * Live beams of the next step, best first; empty when done. `width` of them, or fewer where the
   * vocabulary is too small.
   */
  readonly next: readonly BeamChoice[];
  readonly done: boolean;
}

/** A finished beam. */
export interface BeamHypothesis {
  /** The token that ended it is the last one. */
  readonly tokenIds: readonly number[];
  readonly score: number;
  /** Sum of the tokens' log-probabilities, before the penalty. */
  readonly logprob: number;
  readonly finishReason: "stop" | "length";
  /** The stop token; null for end tokens and at the limit. */
  readonly stopReason: number | null;
}

/** A beam's tokens, newest first. Beams share their common prefixes. */
interface TokenPath {
  readonly tokenId: number;
  readonly before: TokenPath | null;
}

interface Beam {
  readonly path: TokenPath | null;
  readonly logprob: number;
}

/** Why a beam ends with a token. */
type BeamEnd = Pick<BeamHypothesis, "finishReason" | "stopReason">;

interface FinishedBeam extends BeamEnd {
  readonly path: TokenPath | null;
  readonly logprob: number;
  readonly score: number;
}

const AT_LIMIT: BeamEnd = { finishReason: "length", stopReason: null };

/**
 * One prompt's search. The first step has one beam, the prompt; every later one has the beams that
 * the step before returned. Computes no logits and holds no blocks.
 */
export class BeamSearch {
  readonly #options: BeamSearchOptions;
  readonly #endTokens: ReadonlySet<number>;
  #live: readonly Beam[] = [{ path: null, logprob: 0 }];
  /** Best first, equal ones in the order they came. */
  readonly #finished: FinishedBeam[] = [];
  #length = 0;
  #done = false;

  constructor(options: BeamSearchOptions) {
    const { width, returned, newTokensMax, stop } = options;
    assert(returned >= 1 && returned <= width, `Cannot return ${returned} of ${width} beams`);
    assert(newTokensMax >= 1, "Cannot search: no beam can have a token");
    this.#options = options;
    this.#endTokens = new Set([...stop.eosTokenIds, ...stop.stopTokenIds]);
  }

  /** Beams of the next step. */
  get liveBeams(): number {
    return this.#done ? 0 : this.#live.length;
  }

  /**
   * How many of a beam's likeliest tokens decide a step: even if every end token is among them,
   * `width` others are left. (Hugging Face takes (1 + end tokens) * width over all beams together,
   * which never changes the decision.)
   */
  get candidatesPerBeam(): number {
    return this.#options.width + this.#endTokens.size;
  }

  /**
   * Takes the likeliest tokens of each live beam, in their order. Throws ENGINE_STEP_FAILED where
   * no token has a finite log-probability.
   */
  advance(candidates: TokenCandidates): BeamStep {
    assert(!this.#done, "Cannot advance: the search is over");
    const { width, newTokensMax } = this.#options;
    const walk = new BestFirst(this.#live, candidates);
    this.#length += 1;
    const isLast = this.#length >= newTokensMax;
    const next: BeamChoice[] = [];
    const live: Beam[] = [];
    // Only the first `width` may finish; candidates after them replace those that did.
    for (let place = 0; place < width || (!isLast && live.length < width); place++) {
      const found = this.#nextAllowed(walk);
      if (found === null) break;
      const { beam, tokenId, logprob } = found;
      const path = { tokenId, before: this.#live[beam]?.path ?? null };
      const end = this.#endWith(tokenId) ?? (isLast ? AT_LIMIT : null);
      if (end === null) {
        live.push({ path, logprob });
        next.push({ parent: beam, tokenId });
      } else if (place < width) this.#finish({ path, logprob }, end);
    }
    if (live.length + this.#finished.length === 0) throw noNumbers(this.#length);
    this.#live = live;
    this.#done = isLast || live.length === 0 || !this.#mayImprove();
    return this.#done ? { next: [], done: true } : { next, done: false };
  }

  /** The best finished beams, best first: `returned` of them unless the vocabulary is too small. */
  result(): BeamHypothesis[] {
    assert(this.#done, "Cannot give a result: the search goes on");
    return this.#finished
      .slice(0, this.#options.returned)
      .map(({ path, ...hypothesis }) => ({ ...hypothesis, tokenIds: tokensOf(path) }));
  }

  /** The likeliest candidate not taken yet; no end token before `minTokens`. */
  #nextAllowed(walk: BestFirst): Candidate | null {
    const mayEnd = this.#length > this.#options.stop.minTokens;
    for (;;) {
      const found = walk.next();
      if (found === null || mayEnd || !this.#endTokens.has(found.tokenId)) return found;
    }
  }

  #endWith(tokenId: number): BeamEnd | null {
    const { eosTokenIds, stopTokenIds, ignoreEos } = this.#options.stop;
    if (!ignoreEos && eosTokenIds.has(tokenId)) return { finishReason: "stop", stopReason: null };
    return stopTokenIds.has(tokenId) ? { finishReason: "stop", stopReason: tokenId } : null;
  }

  /** Keeps the beam if it is among the `width` best. */
  #finish({ path, logprob }: Beam, end: BeamEnd): void {
    const score = this.#score(logprob, this.#length);
    const worse = this.#finished.findIndex((other) => other.score < score);
    const place = worse === -1 ? this.#finished.length : worse;
    this.#finished.splice(place, 0, { ...end, path, logprob, score });
    if (this.#finished.length > this.#options.width) this.#finished.pop();
  }

  /** Whether the best live beam may still beat a finished one. An estimate, as documented. */
  #mayImprove(): boolean {
    const { width, earlyStopping, lengthPenalty, newTokensMax } = this.#options;
    const worst = this.#finished[width - 1];
    const best = this.#live[0];
    if (worst === undefined || best === undefined) return true;
    if (earlyStopping === true) return false;
    const growsWithLength = earlyStopping === "never" && lengthPenalty > 0;
    const length = growsWithLength ? newTokensMax : this.#length;
    return this.#score(best.logprob, length) > worst.score;
  }

  #score(logprob: number, length: number): number {
    return logprob / length ** this.#options.lengthPenalty;
  }
}

interface Candidate {
  /** Its place among the live beams. */
  readonly beam: number;
  readonly tokenId: number;
  /** Of the whole beam with this token. */
  readonly logprob: number;
}

/**
 * Candidates of all beams, best first; equal ones by beam, then by token, which is their order in
 * one list over beams and vocabulary. Rows are sorted, so only their heads are compared.
 */
class BestFirst {
  readonly #beams: readonly Beam[];
  readonly #candidates: TokenCandidates;
  /** How many of each row are taken. */
  readonly #taken: Int32Array;

  constructor(beams: readonly Beam[], candidates: TokenCandidates) {
    const { count, tokenIds } = candidates;
    assert(
      tokenIds.length >= beams.length * count,
      `Cannot choose: ${beams.length} rows of candidates wanted`,
    );
    this.#beams = beams;
    this.#candidates = candidates;
    this.#taken = new Int32Array(beams.length);
  }

  next(): Candidate | null {
    let best = -1;
    let logprob = Number.NEGATIVE_INFINITY;
    // Excluded tokens (minus infinity) and NaN are not larger than minus infinity.
    for (const [place, beam] of this.#beams.entries()) {
      const sum = beam.logprob + this.#headOf(place);
      if (sum > logprob) [best, logprob] = [place, sum];
    }
    if (best === -1) return null;
    const taken = this.#taken[best] ?? 0;
    this.#taken[best] = taken + 1;
    const tokenId = this.#candidates.tokenIds[best * this.#candidates.count + taken] ?? 0;
    return { beam: best, tokenId, logprob };
  }

  /** Log-probability of the row's likeliest token that is not taken. */
  #headOf(place: number): number {
    const { count, logprobs } = this.#candidates;
    const taken = this.#taken[place] ?? 0;
    if (taken >= count) return Number.NEGATIVE_INFINITY;
    return logprobs[place * count + taken] ?? Number.NEGATIVE_INFINITY;
  }
}

function tokensOf(path: TokenPath | null): number[] {
  const tokens: number[] = [];
  for (let at = path; at !== null; at = at.before) tokens.push(at.tokenId);
  return tokens.reverse();
}

function noNumbers(length: number): EngineError {
  return new EngineError(
    "ENGINE_STEP_FAILED",
    "Cannot continue the beam search: at least one token's log-probability must be finite, " +
      `none is at token ${length}`,
  );
}
