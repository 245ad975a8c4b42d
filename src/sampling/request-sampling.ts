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
  /** Needed for `thinkingTokenBudget` to have an effect. */
  readonly thinking?: ThinkingMarks | null;
}

/**
 * What all sequences of a request have in common for sampling: made once, however many there are.
 * Nobody changes it.
 */
export class RequestSampling {
  readonly params: SamplingParams;
  readonly vocabularySize: number;
  /** What to report beside each token, or null for nothing. */
  readonly logprobs: LogprobRequest | null;
  readonly badWords: readonly (readonly number[])[];
  /** [ceil(V / 32)] bits; null: all tokens are allowed. */
  readonly allowedMask: Uint32Array | null;
  /** The model's end tokens, as far as they have logits. */
  readonly endTokenIds: readonly number[];
  /** These, and the request's own. */
  readonly stopTokens: readonly number[];
  /** What penalties see of the prompt; null: nothing. */
  readonly promptTokens: PromptTokens | null;
  /** Null: thoughts are not limited. */
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
    // The repetition penalty looks at the prompt too.
    this.promptTokens = repetitionPenalty === 1 ? null : new PromptTokens(promptTokens);
    this.thoughts = thoughtsOf(options);
  }

  /** Whether what was drawn, and how often, changes what is drawn next. */
  get penalizes(): boolean {
    const { repetitionPenalty, frequencyPenalty, presencePenalty } = this.params;
    return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
  }
}

/** `logprobs` and `logprobTokenIds` as one wish; the ids win. */
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
