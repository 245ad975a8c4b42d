import { assert, EngineError, type Seed, seedFrom } from "#base";
import { forbiddenNext } from "./bad-word-matcher.ts";
import { type MatcherSource, SequenceGrammar } from "./grammar/sequence-grammar.ts";
import type { LogitEdits } from "./logit-edits.ts";
import type { LogprobRequest } from "./logprobs.ts";
import { RequestSampling, type RequestSamplingOptions } from "./request-sampling.ts";
import type { SamplingParams } from "./sampling-params.ts";
import { ThinkingBudget, type ThinkingState } from "./thinking-budget.ts";
import { TokenHistory } from "./token-history.ts";
import { allow, allows, allowsOther, intersect, maskOf } from "./token-mask.ts";

/** The options of one sequence. */
interface OwnOptions {
  /** The request's seed, or a fresh one; sequence i of a request samples with seed + i. */
  readonly seed: number | bigint;
  /**
   * Its matcher, or how to create it before the first token: waiting sequences cost nothing. Owned
   * from now on: disposed with the sequence.
   */
  readonly matcher?: MatcherSource | null;
}

/** A drafted token that a sequence is behind, and its state before. */
interface TokenAhead {
  readonly token: number;
  /** The grammar received it. */
  readonly answers: boolean;
  readonly answering: boolean;
  readonly thinking: ThinkingState | null;
}

/** What a row's edits depend on beside the tokens before it. */
interface RowState {
  /** What the grammar allows; null: it does not constrain this token. */
  readonly grammarMask: Uint32Array | null;
  readonly awaitedTokens: number;
}

/** A sequence of a request with several, or the only one of a request. */
export type SequenceSamplingOptions = OwnOptions &
  ({ readonly request: RequestSampling } | RequestSamplingOptions);

/**
 * The state that one sequence's sampling depends on: its parameters, and its history as far as
 * penalties, bad words and grammars look back. Updated token by token; survives preemption.
 *
 * A grammar constrains the answer. Where thinking is limited, the grammar neither constrains nor
 * receives a thinking token, and the model may start thinking before its answer begins, not inside
 * of it.
 */
export class SequenceSampling {
  readonly seed: Seed;
  readonly #request: RequestSampling;
  /** Kept only for penalties. */
  readonly #history: TokenHistory | null;
  readonly #generated: number[] = [];
  /** Null: nothing constrains the output. */
  readonly #grammar: SequenceGrammar | null;
  readonly #thinking: ThinkingBudget | null;
  /** The grammar accepted a token: there is no thinking from here on. */
  #answering = false;
  /** Drafted tokens that it is behind now, the oldest first. */
  readonly #ahead: TokenAhead[] = [];

  constructor(options: SequenceSamplingOptions) {
    const request = "request" in options ? options.request : new RequestSampling(options);
    const { matcher = null } = options;
    this.#request = request;
    this.seed = seedFrom(options.seed);
    this.#history = request.penalizes ? new TokenHistory(request.promptTokens) : null;
    this.#grammar = matcher === null ? null : new SequenceGrammar(matcher, request.vocabularySize);
    const { thinkingTokenBudget: budget } = request.params;
    this.#thinking =
      budget === null || request.thoughts === null
        ? null
        : new ThinkingBudget(budget, request.thoughts);
  }

  get params(): SamplingParams {
    return this.#request.params;
  }

  /** The log-probabilities to report for each token, or null for none. */
  get logprobs(): LogprobRequest | null {
    return this.#request.logprobs;
  }

  /** Number of tokens sampled so far. */
  get generatedTokens(): number {
    return this.#generated.length;
  }

  /** The structured output is complete and its end token was sampled: the sequence must end. */
  get terminated(): boolean {
    return this.#grammar?.terminated === true;
  }

  /** `prepare` is likely to take long. */
  get slow(): boolean {
    return this.#grammar?.slow === true;
  }

  /** There is a grammar, so `prepare` must be called before each token. */
  get constrained(): boolean {
    return this.#grammar !== null;
  }

  /**
   * The next token depends on the tokens before it in more ways than through the model: it can be
   * sampled only after `accept` received all of them.
   */
  get looksBack(): boolean {
    return (
      this.#history !== null ||
      this.#request.badWords.length > 0 ||
      this.constrained ||
      this.#thinking !== null
    );
  }

  /** Whether this sequence's logits may have edits for the next token. */
  get edits(): boolean {
    const { params, allowedMask } = this.#request;
    return (
      this.looksBack ||
      params.logitBias.length > 0 ||
      allowedMask !== null ||
      this.#generated.length < params.minTokens
    );
  }

  /** Whether drafts of it can be verified: the grammar, where it has a say, can go ahead. */
  get foresees(): boolean {
    return this.#grammar === null || this.#thinks || this.#grammar.foresees;
  }

  /** Records the sampled token. The grammar receives it with `prepare`. */
  accept(token: number): void {
    assert(this.#ahead.length === 0, "Cannot accept a token behind drafted ones");
    const isThought = this.#isThought(token);
    if (!isThought) this.#grammar?.accept(token);
    this.#take(token, isThought);
  }

  /**
   * Passes the sampled tokens to the grammar and computes the next mask, unless that was done.
   * Required before `write` when there is a grammar. Throws ENGINE_STEP_FAILED where the grammar
   * refuses a sampled token, and errors of its library.
   */
  async prepare(): Promise<void> {
    if (!this.#thinks) await this.#grammar?.prepare();
  }

  /**
   * Writes this sequence's edits as the current row of `edits`. `awaitedTokens`: sampled tokens
   * that `accept` has not received, 0 where the sequence looks back. Throws GRAMMAR_INVALID or
   * INVALID_ARGUMENT where no token may come next.
   */
  write(edits: LogitEdits, awaitedTokens = 0): void {
    assert(
      !this.looksBack || awaitedTokens === 0,
      "Cannot look back at tokens that are not sampled yet",
    );
    const thinks = this.#thinks;
    this.#writeRow(edits, {
      grammarMask: thinks ? null : (this.#grammar?.mask ?? null),
      awaitedTokens,
    });
  }

  #writeRow(edits: LogitEdits, { grammarMask, awaitedTokens }: RowState): void {
    const forced = this.#thinking?.forced() ?? null;
    if (forced !== null && this.#thinks) {
      edits.mask().set(maskOf([forced], edits.wordsPerRow));
      return;
    }
    const mask = this.#writeMask(edits, grammarMask);
    this.#writePenalties(edits);
    for (const { token, value } of this.params.logitBias) {
      edits.bias(token, value);
    }
    const forbidden = forbiddenNext(this.#generated, this.#request.badWords);
    if (!this.#leavesOthers(mask, forbidden)) throw this.#deadEnd(mask, grammarMask !== null);
    const stops = this.#mayEnd(awaitedTokens) ? [] : this.#request.stopTokens;
    // After a complete grammar only an end token is possible, which takes precedence over
    // minTokens.
    const mayForbidStops = stops.length > 0 && this.#leavesOthers(mask, [...forbidden, ...stops]);
    for (const token of mayForbidStops ? [...forbidden, ...stops] : forbidden) {
      edits.bias(token, Number.NEGATIVE_INFINITY);
    }
  }

  /**
   * Goes behind drafted tokens, as if these had been sampled: as far as the grammar allows them.
   * Returns how many that are; `comeBack` leaves them. A path that begins as the last one did costs
   * what it has more. Throws errors of the grammar.
   */
  goBehind(drafted: Int32Array): number {
    let common = 0;
    while (common < drafted.length && this.#ahead[common]?.token === drafted[common]) common++;
    this.#leave(this.#ahead.length - common);
    for (; common < drafted.length; common++) {
      const token = drafted[common] ?? 0;
      const isThought = this.#isThought(token);
      const answers = this.#grammar !== null && !isThought;
      if (answers && this.#grammar?.goBehind(token) !== true) break;
      const thinking = this.#thinking?.save() ?? null;
      this.#ahead.push({ token, answers, answering: this.#answering, thinking });
      this.#take(token, isThought);
    }
    return common;
  }

  /** Leaves all drafted tokens: the next one is that behind the sampled tokens again. */
  comeBack(): void {
    this.#leave(this.#ahead.length);
  }

  /**
   * Writes the edits of the row behind drafted tokens, and stays there until `comeBack`. Throws as
   * `write` does, and where the grammar refuses the tokens or takes long.
   */
  writeBehind(drafted: Int32Array, edits: LogitEdits): void {
    const reached = this.goBehind(drafted);
    if (reached < drafted.length || !this.foresees) throw unforeseen();
    const grammarMask = this.#thinks ? null : (this.#grammar?.lookAhead() ?? null);
    this.#writeRow(edits, { grammarMask, awaitedTokens: 0 });
  }

  /**
   * Tokens that spell what the grammar leaves no choice of, at most `most`. Others may spell it,
   * too. Throws errors of the grammar.
   */
  forced(most: number): Int32Array {
    const grammar = this.#thinks ? null : this.#grammar;
    return grammar?.forced(most) ?? new Int32Array(0);
  }

  /** Releases the grammar's memory. */
  dispose(): void {
    this.#grammar?.dispose();
  }

  #take(token: number, isThought: boolean): void {
    if (!isThought) this.#answering = this.constrained;
    this.#generated.push(token);
    this.#history?.add(token);
    if (!this.#answering) this.#thinking?.accept(this.#generated);
  }

  /** Leaves the newest `count` drafted tokens. */
  #leave(count: number): void {
    let answers = 0;
    for (let left = count; left > 0; left--) {
      const last = this.#ahead.pop();
      if (last === undefined) break;
      if (last.answers) answers++;
      this.#generated.pop();
      this.#history?.remove(last.token);
      this.#answering = last.answering;
      if (last.thinking !== null) this.#thinking?.restore(last.thinking);
    }
    this.#grammar?.comeBack(answers);
  }

  /** The next token is a thinking token, which the grammar does not receive. */
  get #thinks(): boolean {
    return this.#thinking?.thinking === true && !this.#answering;
  }

  /** Whether a sampled token belongs to the thinking, marks included. */
  #isThought(token: number): boolean {
    if (this.#thinks) return true;
    return this.constrained && !this.#answering && token === this.#thinking?.opener;
  }

  /** Not before minTokens; with a grammar not before the end of thinking. */
  #mayEnd(awaitedTokens: number): boolean {
    if (this.constrained && this.#thinks) return false;
    return this.#generated.length + awaitedTokens >= this.params.minTokens;
  }

  /** Whether a token that is not in `except` may be sampled. */
  #leavesOthers(mask: Uint32Array | null, except: readonly number[]): boolean {
    if (mask !== null) return allowsOther(mask, except);
    const { vocabularySize } = this.#request;
    return except.length < vocabularySize || new Set(except).size < vocabularySize;
  }

  #writeMask(edits: LogitEdits, grammarMask: Uint32Array | null): Uint32Array | null {
    const { allowedMask, endTokenIds } = this.#request;
    if (grammarMask === null && allowedMask === null) return null;
    const mask = edits.mask();
    mask.set(grammarMask ?? allowedMask ?? []);
    if (grammarMask === null) return mask;
    if (!allowsOther(mask, [])) throw emptyGrammar();
    const opener = this.#answering ? null : (this.#thinking?.opener ?? null);
    if (opener !== null) allow(mask, opener);
    if (allowedMask === null) return mask;
    intersect(mask, allowedMask);
    // A complete answer may end, even if its end token is not in `allowedMask`.
    if (!allowsOther(mask, [])) {
      for (const token of endTokenIds) if (allows(grammarMask, token)) allow(mask, token);
    }
    return mask;
  }

  #writePenalties(edits: LogitEdits): void {
    if (this.#history === null) return;
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.params;
    edits.penalize(repetitionPenalty, frequencyPenalty, presencePenalty);
    edits.count(this.#history);
  }

  /** The error when no token may come next. */
  #deadEnd(mask: Uint32Array | null, isConstrained: boolean): EngineError {
    const { allowedMask, badWords } = this.#request;
    const wishes = [
      ...(!isConstrained ? [] : ["the structured output"]),
      ...(allowedMask === null ? [] : ["allowedTokenIds"]),
      ...(badWords.length === 0 ? [] : ["badWords"]),
    ];
    const param = allowedMask !== null ? "allowedTokenIds" : "badWords";
    const left = mask === null ? "the vocabulary has no other" : "they leave none";
    return new EngineError(
      "INVALID_ARGUMENT",
      `Cannot sample token ${this.#generated.length + 1}: ${wishes.join(" and ")} must leave ` +
        `one that may come next, ${left}`,
      { param },
    );
  }
}

/** No request ends with it: the walk over a draft ends before such a row. */
function unforeseen(): EngineError {
  return new EngineError(
    "ENGINE_STEP_FAILED",
    "Cannot sample behind drafted tokens: the grammar must allow them, and its masks must be quick",
  );
}

function emptyGrammar(): EngineError {
  return new EngineError(
    "GRAMMAR_INVALID",
    "Cannot follow the grammar: it must allow a token that may come next, it allows none",
    { param: "structured_output" },
  );
}
