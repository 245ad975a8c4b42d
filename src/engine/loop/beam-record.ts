import { assert } from "#base";
import type { PromptOutput, RequestKey, SequenceOutput } from "#engine/protocol";
import type { SamplingParams, TokenCandidates } from "#sampling";
import type { BeamContinuation, Sequence, StopRules } from "#scheduler";
import { type BeamHypothesis, BeamSearch } from "./beam-search.ts";

/** Options of a request's search. */
export interface BeamRecordOptions {
  readonly params: SamplingParams;
  readonly stop: StopRules;
  /** Most new tokens that the request and the context allow. */
  readonly newTokensMax: number;
  /** The sequence that computes the prompt. */
  readonly lead: Sequence;
}

/** What goes with the outputs of a finished search. */
export interface BeamOutputOptions {
  readonly key: RequestKey;
  /** Comes with the best beam. */
  readonly prompt: PromptOutput | null;
  /** Of all beams; told with the best. */
  readonly heldBlockMs: number;
}

/**
 * A request's beam search inside the engine: maps beams to sequences. After each step that computed
 * its beams, `advance` decides how they continue, the scheduler assigns each a sequence, and
 * `continueWith` records which. Null from `advance`: the search is over, and `outputs` has its
 * results.
 */
export class BeamRecord {
  /** How many of the likeliest tokens of each beam's row `advance` considers. */
  readonly candidatesPerBeam: number;
  readonly #search: BeamSearch;
  readonly #returned: number;
  /** By beam, best first. */
  #sequences: readonly Sequence[];
  /** Candidates of all beams, in a buffer made at the first step: rows arrive one by one. */
  #rows: TokenCandidates | null = null;

  constructor({ params, stop, newTokensMax, lead }: BeamRecordOptions) {
    const { beamWidth: width, n: returned, lengthPenalty, earlyStopping } = params;
    assert(width !== null, "Cannot search beams: the request samples tokens");
    const limits = { newTokensMax, stop, returned };
    this.#search = new BeamSearch({ width, lengthPenalty, earlyStopping, ...limits });
    this.#returned = returned;
    this.#sequences = [lead];
    this.candidatesPerBeam = this.#search.candidatesPerBeam;
  }

  /**
   * The sequences whose next rows are used: only the lead's for the first token, then the beams'.
   */
  get sequences(): readonly Sequence[] {
    return this.#sequences;
  }

  /**
   * Takes one row of candidates for each of `sequences`. Returns the beams that continue, best
   * first, for `Scheduler.continueBeams`; null when the search is over. Throws ENGINE_STEP_FAILED
   * where no token has a finite log-probability.
   */
  advance(rowOf: (sequence: Sequence) => TokenCandidates): readonly BeamContinuation[] | null {
    const { next, done } = this.#search.advance(this.#gather(rowOf));
    if (done) return null;
    return next.map(({ parent, tokenId }) => {
      const sequence = this.#sequences[parent];
      assert(sequence !== undefined, "Cannot continue a beam without a sequence");
      return { parent: sequence, tokenId };
    });
  }

  /** Records the sequence of each beam that `advance` returned, in its order. */
  continueWith(sequences: readonly Sequence[]): void {
    const wanted = this.#search.liveBeams;
    assert(sequences.length === wanted, "Cannot continue: a sequence per beam wanted");
    this.#sequences = sequences;
  }

  /** One whole output for each beam that the request asked for, best first. */
  outputs({ key, prompt, heldBlockMs }: BeamOutputOptions): SequenceOutput[] {
    const found = this.#search.result();
    return Array.from({ length: this.#returned }, (_, index) => ({
      key,
      index,
      ...beamOutput(found[index]),
      logprobs: null,
      prompt: index === 0 ? prompt : null,
      heldBlockMs: index === 0 ? heldBlockMs : 0,
    }));
  }

  /** Rows of all beams in one list, in a buffer that is made once. */
  #gather(rowOf: (sequence: Sequence) => TokenCandidates): TokenCandidates {
    let rows = this.#rows;
    for (const [beam, sequence] of this.#sequences.entries()) {
      const row = rowOf(sequence);
      rows ??= this.#makeRows(row.count);
      assert(row.count === rows.count, "Cannot compare beams: as many candidates of each wanted");
      rows.tokenIds.set(row.tokenIds, beam * row.count);
      rows.logprobs.set(row.logprobs, beam * row.count);
    }
    assert(rows !== null, "Cannot search without beams");
    this.#rows = rows;
    return rows;
  }

  #makeRows(count: number): TokenCandidates {
    // The search keeps at most `candidatesPerBeam` beams.
    const length = this.candidatesPerBeam * count;
    return { count, tokenIds: new Int32Array(length), logprobs: new Float32Array(length) };
  }
}

/** A beam missing because of a small vocabulary is an error: its index needs an output. */
function beamOutput(
  found: BeamHypothesis | undefined,
): Pick<SequenceOutput, "tokenIds" | "finishReason" | "stopReason" | "beam"> {
  if (found === undefined) {
    return { tokenIds: [], finishReason: "error", stopReason: null, beam: null };
  }
  const { tokenIds, score, logprob, finishReason, stopReason } = found;
  return { tokenIds, finishReason, stopReason, beam: { score, logprob } };
}
