import { assert, type Seed, seedFrom } from "#base";
import { forbiddenNext } from "./bad-word-matcher.ts";
import type { GrammarMatcher } from "./grammar.ts";
import type { LogitEdits } from "./logit-edits.ts";
import type { LogprobRequest } from "./logprobs.ts";
import type { SamplingParams } from "./sampling-params.ts";
import { ThinkingBudget, type ThinkingMarks } from "./thinking-budget.ts";
import { TokenHistory } from "./token-history.ts";
import { allow, allowsOther, intersect, maskOf } from "./token-mask.ts";

export interface SequenceSamplingOptions {
  readonly params: SamplingParams;
  /** The request's seed, or a fresh one; sequence i of a request draws with seed + i. */
  readonly seed: number | bigint;
  readonly promptTokens: readonly number[];
  /** Columns of the logits. */
  readonly vocabularySize: number;
  /** The model's end tokens. */
  readonly endTokenIds: readonly number[];
  /** Token sequences of `params.badWords`. */
  readonly badWords?: readonly (readonly number[])[];
  /** Owned from now on: disposed with the sequence. */
  readonly matcher?: GrammarMatcher | null;
  /** Needed for `thinkingTokenBudget` to have an effect. */
  readonly thinking?: ThinkingMarks | null;
}

/**
 * What one sequence's sampling depends on: its parameters, and its history as far as penalties,
 * bad words and grammars look back. Kept up to date token by token; survives preemption.
 */
export class SequenceSampling {
  readonly params: SamplingParams;
  readonly seed: Seed;
  /** What to report beside each token, or null for nothing. */
  readonly logprobs: LogprobRequest | null;
  /** Kept only where penalties ask for it. */
  readonly #history: TokenHistory | null;
  readonly #generated: number[] = [];
  readonly #badWords: readonly (readonly number[])[];
  readonly #matcher: GrammarMatcher | null;
  readonly #grammarMask: Uint32Array | null;
  readonly #allowedMask: Uint32Array | null;
  readonly #endTokenIds: readonly number[];
  readonly #stopTokens: readonly number[];
  readonly #thinking: ThinkingBudget | null;

  constructor(options: SequenceSamplingOptions) {
    const { params, vocabularySize, promptTokens, endTokenIds } = options;
    const words = Math.ceil(vocabularySize / 32);
    const { allowedTokenIds } = params;
    this.params = params;
    this.seed = seedFrom(options.seed);
    this.logprobs = logprobRequest(params, vocabularySize);
    this.#history = historyFor(params, promptTokens);
    this.#badWords = options.badWords ?? [];
    this.#matcher = options.matcher ?? null;
    this.#grammarMask = this.#matcher === null ? null : new Uint32Array(words);
    this.#allowedMask = allowedTokenIds === null ? null : maskOf(allowedTokenIds, words);
    const known = (token: number): boolean => token < vocabularySize;
    this.#endTokenIds = endTokenIds.filter(known);
    this.#stopTokens = [...new Set([...endTokenIds, ...params.stopTokenIds])].filter(known);
    this.#thinking = thinkingBudget(options);
  }

  /** Tokens drawn so far. */
  get generatedTokens(): number {
    return this.#generated.length;
  }

  /** The structured output is complete and its end token was drawn: the sequence must end. */
  get terminated(): boolean {
    return this.#matcher?.isTerminated() ?? false;
  }

  /**
   * Takes note of the token that was drawn. False: the grammar does not allow it, the sequence
   * must end with an error.
   */
  accept(token: number): boolean {
    if (this.#matcher !== null && !this.#matcher.isTerminated() && !this.#matcher.accept(token)) {
      return false;
    }
    this.#generated.push(token);
    this.#history?.add(token);
    this.#thinking?.accept(this.#generated);
    return true;
  }

  /** There is a grammar, so `prepare` must be called before each draw. */
  get constrained(): boolean {
    return this.#matcher !== null;
  }

  /**
   * What is to be drawn next depends on the tokens before it in more ways than through the model:
   * no draw can be enqueued before `accept` has heard of all of them.
   */
  get looksBack(): boolean {
    return (
      this.#history !== null ||
      this.#badWords.length > 0 ||
      this.#matcher !== null ||
      this.#thinking !== null
    );
  }

  /** Whether this sequence's logits may have to be changed before the next draw. */
  get edits(): boolean {
    const { params } = this;
    return (
      this.looksBack ||
      params.logitBias.length > 0 ||
      this.#allowedMask !== null ||
      this.#generated.length < params.minTokens
    );
  }

  /** Asks the grammar for the next mask. Needed before `write` when there is a grammar. */
  async prepare(): Promise<void> {
    if (this.#matcher === null || this.#grammarMask === null) return;
    await this.#matcher.fillBitmask(this.#grammarMask);
  }

  /**
   * Writes this sequence's edits as the current row of `edits`. `awaitedTokens`: drawn ones that
   * `accept` has not heard of, none where the sequence looks back.
   */
  write(edits: LogitEdits, awaitedTokens = 0): void {
    assert(!this.looksBack || awaitedTokens === 0, "Cannot look back at tokens still to be drawn");
    const forced = this.#thinking?.forced() ?? null;
    if (forced !== null) {
      edits.mask().set(maskOf([forced], edits.wordsPerRow));
      return;
    }
    const mask = this.#writeMask(edits);
    this.#writePenalties(edits);
    for (const { token, value } of this.params.logitBias) {
      edits.bias(token, value);
    }
    for (const token of forbiddenNext(this.#generated, this.#badWords)) {
      edits.bias(token, Number.NEGATIVE_INFINITY);
    }
    // A grammar that is complete can only end, and that goes before minTokens.
    const mayNotEnd = this.#generated.length + awaitedTokens < this.params.minTokens;
    if (mayNotEnd && (mask === null || allowsOther(mask, this.#stopTokens))) {
      for (const token of this.#stopTokens) edits.bias(token, Number.NEGATIVE_INFINITY);
    }
  }

  #writeMask(edits: LogitEdits): Uint32Array | null {
    if (this.#grammarMask === null && this.#allowedMask === null) return null;
    const mask = edits.mask();
    mask.set(this.#grammarMask ?? this.#allowedMask ?? []);
    if (this.#grammarMask !== null && this.#allowedMask !== null) {
      intersect(mask, this.#allowedMask);
      // Nothing satisfies both: better an early end than a token that the grammar refuses.
      if (!allowsOther(mask, [])) for (const token of this.#endTokenIds) allow(mask, token);
    }
    return mask;
  }

  #writePenalties(edits: LogitEdits): void {
    if (this.#history === null) return;
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.params;
    edits.penalize(repetitionPenalty, frequencyPenalty, presencePenalty);
    edits.count(this.#history.tokens, this.#history.counts);
  }

  /** Gives the grammar's memory back. */
  dispose(): void {
    this.#matcher?.dispose();
  }
}

/** The repetition penalty looks at the prompt too; without any penalty nothing is kept. */
function historyFor(params: SamplingParams, promptTokens: readonly number[]): TokenHistory | null {
  if (params.repetitionPenalty !== 1) return new TokenHistory(promptTokens);
  const penalized = params.frequencyPenalty !== 0 || params.presencePenalty !== 0;
  return penalized ? new TokenHistory([]) : null;
}

/** `logprobs` and `logprobTokenIds` as one wish; the ids win. */
function logprobRequest(params: SamplingParams, vocabularySize: number): LogprobRequest | null {
  if (params.logprobTokenIds !== null) return { kind: "tokens", tokenIds: params.logprobTokenIds };
  if (params.logprobs === null) return null;
  const count = params.logprobs === -1 ? vocabularySize : Math.min(params.logprobs, vocabularySize);
  return { kind: "top", count };
}

function thinkingBudget(options: SequenceSamplingOptions): ThinkingBudget | null {
  const { params, thinking, promptTokens } = options;
  if (params.thinkingTokenBudget === null || !thinking) return null;
  assert(thinking.endTokenIds.length > 0, "Cannot limit thinking: its end mark has no tokens");
  return new ThinkingBudget(params.thinkingTokenBudget, thinking, promptTokens);
}
