import { assert, EngineError, type Seed, seedFrom } from "#base";
import { forbiddenNext } from "./bad-word-matcher.ts";
import type { GrammarMatcher } from "./grammar/grammar-matcher.ts";
import type { LogitEdits } from "./logit-edits.ts";
import type { LogprobRequest } from "./logprobs.ts";
import { RequestSampling, type RequestSamplingOptions } from "./request-sampling.ts";
import type { SamplingParams } from "./sampling-params.ts";
import { ThinkingBudget } from "./thinking-budget.ts";
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
  readonly matcher?: GrammarMatcher | (() => Promise<GrammarMatcher>) | null;
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
  readonly #createMatcher: (() => Promise<GrammarMatcher>) | null;
  /** Null: there is no grammar, or its first mask was not prepared yet. */
  #matcher: GrammarMatcher | null;
  /** The grammar's mask at the next token; null before the first one. */
  #grammarMask: Uint32Array | null = null;
  readonly #thinking: ThinkingBudget | null;
  /** The grammar accepted a token: there is no thinking from here on. */
  #answering = false;
  /**
   * Tokens of the answer that were not passed to the grammar yet: that may take as long as a mask.
   */
  #untold: number[] = [];
  /** The mask is that of the next token. */
  #prepared = false;
  #terminated = false;
  #disposed = false;

  constructor(options: SequenceSamplingOptions) {
    const request = "request" in options ? options.request : new RequestSampling(options);
    const { matcher = null } = options;
    this.#request = request;
    this.seed = seedFrom(options.seed);
    this.#history = request.penalizes ? new TokenHistory(request.promptTokens) : null;
    this.#createMatcher = typeof matcher === "function" ? matcher : null;
    this.#matcher = typeof matcher === "function" ? null : matcher;
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
    return this.#terminated;
  }

  /** `prepare` is likely to take long. */
  get slow(): boolean {
    return this.#matcher?.slow ?? false;
  }

  /** There is a grammar, so `prepare` must be called before each token. */
  get constrained(): boolean {
    return this.#createMatcher !== null || this.#matcher !== null;
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

  /** Records the sampled token. The grammar receives it with `prepare`. */
  accept(token: number): void {
    if (!this.#isThought(token)) {
      this.#answering = this.constrained;
      if (this.#matcher !== null && !this.#terminated) {
        this.#untold.push(token);
        this.#terminated = this.#matcher.ends(token);
      }
    }
    this.#prepared = false;
    this.#generated.push(token);
    this.#history?.add(token);
    if (!this.#answering) this.#thinking?.accept(this.#generated);
  }

  /**
   * Passes the sampled tokens to the grammar and computes the next mask, unless that was done.
   * Required before `write` when there is a grammar. Throws ENGINE_STEP_FAILED where the grammar
   * refuses a sampled token, and errors of its library.
   */
  async prepare(): Promise<void> {
    if (!this.constrained || this.#thinks || this.#prepared) return;
    this.#matcher ??= (await this.#createMatcher?.()) ?? null;
    this.#grammarMask ??= new Uint32Array(Math.ceil(this.#request.vocabularySize / 32));
    if (this.#disposed) {
      this.dispose();
      return;
    }
    for (const token of this.#untold.splice(0)) this.#tell(token);
    await this.#matcher?.fillBitmask(this.#grammarMask);
    this.#prepared = true;
  }

  #tell(token: number): void {
    if (this.#matcher?.accept(token) !== false) return;
    throw new EngineError(
      "ENGINE_STEP_FAILED",
      `Cannot continue: the grammar must allow the sampled token, it refuses token ${token}`,
    );
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
    const forced = this.#thinking?.forced() ?? null;
    if (forced !== null && this.#thinks) {
      edits.mask().set(maskOf([forced], edits.wordsPerRow));
      return;
    }
    const mask = this.#writeMask(edits);
    this.#writePenalties(edits);
    for (const { token, value } of this.params.logitBias) {
      edits.bias(token, value);
    }
    const forbidden = forbiddenNext(this.#generated, this.#request.badWords);
    if (!this.#leavesOthers(mask, forbidden)) throw this.#deadEnd(mask);
    const stops = this.#mayEnd(awaitedTokens) ? [] : this.#request.stopTokens;
    // After a complete grammar only an end token is possible, which takes precedence over
    // minTokens.
    const mayForbidStops = stops.length > 0 && this.#leavesOthers(mask, [...forbidden, ...stops]);
    for (const token of mayForbidStops ? [...forbidden, ...stops] : forbidden) {
      edits.bias(token, Number.NEGATIVE_INFINITY);
    }
  }

  /**
   * Writes the edits of the row behind drafted tokens, as if these had been sampled. Not for
   * sequences with a grammar.
   */
  writeBehind(drafted: Int32Array, edits: LogitEdits): void {
    assert(!this.constrained, "Cannot draft what a grammar constrains");
    const thinking = this.#thinking?.save();
    for (const token of drafted) this.accept(token);
    try {
      this.write(edits);
    } finally {
      for (const token of drafted) this.#history?.remove(token);
      this.#generated.length -= drafted.length;
      if (thinking !== undefined) this.#thinking?.restore(thinking);
    }
  }

  /** Releases the grammar's memory. */
  dispose(): void {
    this.#disposed = true;
    this.#matcher?.dispose();
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

  #writeMask(edits: LogitEdits): Uint32Array | null {
    const { allowedMask, endTokenIds } = this.#request;
    const grammarMask = this.#thinks ? null : this.#grammarMask;
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
  #deadEnd(mask: Uint32Array | null): EngineError {
    const { allowedMask, badWords } = this.#request;
    const wishes = [
      ...(this.#grammarMask === null ? [] : ["the structured output"]),
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

function emptyGrammar(): EngineError {
  return new EngineError(
    "GRAMMAR_INVALID",
    "Cannot follow the grammar: it must allow a token that may come next, it allows none",
    { param: "structured_output" },
  );
}
