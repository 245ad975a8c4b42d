import { assert } from "#base";
import type { LogprobRequest } from "./logprobs.ts";
import type { SamplingParams } from "./sampling-params.ts";
import { type PromptThoughts, promptThoughts, type ThinkingMarks } from "./thinking-budget.ts";
import { PromptTokens } from "./token-history.ts";
import { maskOf } from "./token-mask.ts";

export interface RequestSamplingOptions {
  readonly params: SamplingParams;
  readonly promptTokens: ArrayLike<number> & Iterable<number>;
  /** Columns of the logits. */
  readonly vocabularySize: number;
  /** The model's end tokens. */
  readonly endTokenIds: readonly number[];
  /** Token sequences of `params.badWords`. */
  readonly badWords?: readonly (readonly number[])[];
  /** Required for `thinkingTokenBudget` to have an effect. */
  readonly thinking?: ThinkingMarks | null;
}

/** The sampling data that all sequences of a request share, made once. Immutable. */
export class RequestSampling {
  readonly params: SamplingParams;
  readonly vocabularySize: number;
  /** The log-probabilities to report for each token, or null for none. */
  readonly logprobs: LogprobRequest | null;
  readonly badWords: readonly (readonly number[])[];
  /** [ceil(V / 32)] bits; null: all tokens are allowed. */
  readonly allowedMask: Uint32Array | null;
  /** The model's end tokens that have logits. */
  readonly endTokenIds: readonly number[];
  /** These, and the request's own. */
  readonly stopTokens: readonly number[];
  /** The prompt's tokens for penalties; null: penalties ignore the prompt. */
  readonly promptTokens: PromptTokens | null;
  /** Thinking at the end of the prompt; null: thinking is not limited. */
  readonly thoughts: PromptThoughts | null;

  constructor(options: RequestSamplingOptions) {
    const { params, vocabularySize, endTokenIds, promptTokens } = options;
    const { allowedTokenIds, repetitionPenalty } = params;
    this.params = params;
    this.vocabularySize = vocabularySize;
    this.logprobs = logprobRequest(params, vocabularySize);
    this.badWords = options.badWords ?? [];
    const words = Math.ceil(vocabularySize / 32);
    this.allowedMask = allowedTokenIds === null ? null : maskOf(allowedTokenIds, words);
    const known = (token: number): boolean => token < vocabularySize;
    this.endTokenIds = endTokenIds.filter(known);
    this.stopTokens = [...new Set([...endTokenIds, ...params.stopTokenIds])].filter(known);
    // The repetition penalty counts the prompt's tokens too.
    this.promptTokens = repetitionPenalty === 1 ? null : new PromptTokens(promptTokens);
    this.thoughts = thoughtsOf(options);
  }

  /** Whether the sampled tokens and their counts affect the next one. */
  get penalizes(): boolean {
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.params;
    return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
  }
}

/** `logprobs` and `logprobTokenIds` as one request; the ids take precedence. */
function logprobRequest(params: SamplingParams, vocabularySize: number): LogprobRequest | null {
  if (params.logprobTokenIds !== null) return { kind: "tokens", tokenIds: params.logprobTokenIds };
  if (params.logprobs === null) return null;
  const count = params.logprobs === -1 ? vocabularySize : Math.min(params.logprobs, vocabularySize);
  return { kind: "top", count };
}

function thoughtsOf(options: RequestSamplingOptions): PromptThoughts | null {
  const { params, thinking, promptTokens } = options;
  if (params.thinkingTokenBudget === null || !thinking) return null;
  assert(thinking.endTokenIds.length > 0, "Cannot limit thinking: its end mark has no tokens");
  return promptThoughts(thinking, promptTokens);
}
