import type { CompletionDelta, DraftUse, PromptInfo } from "#engine";

const NO_COUNTS = { usage: null };

/** Token counts in OpenAI's format. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number };
  /** Where the model thought, or tokens were drafted. */
  readonly completion_tokens_details?: {
    readonly reasoning_tokens?: number;
    readonly accepted_prediction_tokens?: number;
    readonly rejected_prediction_tokens?: number;
  };
  /** Of the engine's own. */
  readonly perigee?: {
    /**
     * Where the request asked for it: bytes of the device's KV blocks times seconds that they were
     * held, a shared block fully.
     */
    readonly kv_byte_seconds?: number;
    /** What was put behind the conversation, so that the prefix cache hits. */
    readonly moved_noise?: readonly string[];
  };
}

/** Tokens of a whole answer. */
export interface AnsweredCounts {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
}

/** Counts tokens of one request, over all its prompts and sequences. */
export class UsageCounter {
  readonly #prompts = new Map<number, PromptInfo>();
  #scoredTokens = 0;
  #completionTokens = 0;
  /** By sequence. */
  readonly #reasoningTokens = new Map<number, number>();
  #drafted = 0;
  #accepted = 0;
  /** Prompt tokens that another worker found in its cache, of the prompts that it began. */
  #earlierCachedTokens = 0;
  #earlierPrompts: ReadonlySet<number> = new Set();
  /** By prompt and sequence. */
  readonly #held = new Map<string, number>();
  #movedNoise: readonly string[] = [];

  /** Of these prompts another worker's finds count, not this one's. */
  resume(prompts: ReadonlySet<number>, cachedTokens: number): void {
    this.#earlierPrompts = prompts;
    this.#earlierCachedTokens = cachedTokens;
  }

  /** Adds new tokens of the prompt with index `promptIndex`. */
  add(promptIndex: number, prompt: PromptInfo, completionTokens: number, drafts?: DraftUse): void {
    this.#prompts.set(promptIndex, prompt);
    this.#completionTokens += completionTokens;
    this.#drafted += drafts?.drafted ?? 0;
    this.#accepted += drafts?.accepted ?? 0;
  }

  /** Notes how many tokens of a sequence were thoughts so far; the newest figure counts. */
  reason(index: number, tokens: number): void {
    if (tokens > 0) this.#reasoningTokens.set(index, tokens);
  }

  /** Adds tokens of texts that are scored, not continued. */
  addPromptTokens(count: number): void {
    this.#scoredTokens += count;
  }

  /** Counts an answer whose prompt another layer made. */
  answered({ promptTokens, cachedTokens, completionTokens }: AnsweredCounts): void {
    this.addPromptTokens(promptTokens);
    this.#completionTokens += completionTokens;
    this.#earlierCachedTokens += cachedTokens;
  }

  /** Notes what was held for a sequence since its request came; the newest figure counts. */
  hold(
    promptIndex: number,
    { index, kvByteSeconds }: Pick<CompletionDelta, "index" | "kvByteSeconds">,
  ): void {
    if (kvByteSeconds !== undefined) this.#held.set(`${promptIndex}/${index}`, kvByteSeconds);
  }

  /** Notes what was moved within the prompt, by name. */
  moved(noise: readonly string[]): void {
    this.#movedNoise = noise;
  }

  usage(): Usage {
    let promptTokens = this.#scoredTokens;
    let cachedTokens = this.#earlierCachedTokens;
    for (const [index, prompt] of this.#prompts) {
      promptTokens += prompt.promptTokenIds.length;
      if (!this.#earlierPrompts.has(index)) cachedTokens += prompt.cachedTokens;
    }
    return {
      prompt_tokens: promptTokens,
      completion_tokens: this.#completionTokens,
      total_tokens: promptTokens + this.#completionTokens,
      prompt_tokens_details: { cached_tokens: cachedTokens },
      ...this.#details(),
      ...this.#own(),
    };
  }

  #own(): Pick<Usage, "perigee"> {
    const isHeld = this.#held.size > 0;
    const isMoved = this.#movedNoise.length > 0;
    if (!isHeld && !isMoved) return {};
    return {
      perigee: {
        ...(isHeld && { kv_byte_seconds: this.#kvByteSeconds() }),
        ...(isMoved && { moved_noise: this.#movedNoise }),
      },
    };
  }

  #details(): Pick<Usage, "completion_tokens_details"> {
    let thoughts = 0;
    for (const tokens of this.#reasoningTokens.values()) thoughts += tokens;
    if (thoughts + this.#drafted === 0) return {};
    const drafts = {
      accepted_prediction_tokens: this.#accepted,
      rejected_prediction_tokens: this.#drafted - this.#accepted,
    };
    return {
      completion_tokens_details: {
        ...(thoughts > 0 && { reasoning_tokens: thoughts }),
        ...(this.#drafted > 0 && drafts),
      },
    };
  }

  #kvByteSeconds(): number {
    let sum = 0;
    for (const bytes of this.#held.values()) sum += bytes;
    return Math.round(sum);
  }
}

/** The `usage` field of a chunk that is not the last, in an object; null: no such field. */
export function chunkUsage(counter: UsageCounter, wanted: StreamUsage): object | null {
  if (!wanted.atEnd) return null;
  return wanted.everyChunk ? { usage: counter.usage() } : NO_COUNTS;
}

/** The usage figures that a stream carries. */
export interface StreamUsage {
  readonly atEnd: boolean;
  readonly everyChunk: boolean;
}
