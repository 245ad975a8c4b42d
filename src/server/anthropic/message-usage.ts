/** Token counts in Anthropic's format, which tells apart what was cached, kept and neither. */
import type { UsageCounter } from "../openai/usage.ts";
import type { MarkedTokens } from "./cache-control.ts";

/** Anthropic's `usage`. */
export interface MessageUsage {
  /** Prompt tokens that were computed and that no `cache_control` covers. */
  readonly input_tokens: number;
  /** Prompt tokens that were computed and are kept as `cache_control` asks. */
  readonly cache_creation_input_tokens: number;
  /** Prompt tokens whose keys and values were in the cache, whether marked or not. */
  readonly cache_read_input_tokens: number;
  readonly cache_creation: {
    readonly ephemeral_5m_input_tokens: number;
    readonly ephemeral_1h_input_tokens: number;
  };
  readonly output_tokens: number;
  /** Of ours: what was put behind the prompt's stable part. Absent: nothing was. */
  readonly perigee?: { readonly moved_noise: readonly string[] };
}

/** The counts so far. */
export function messageUsage(counter: UsageCounter, marked: MarkedTokens): MessageUsage {
  const { prompt_tokens: prompt, completion_tokens, ...details } = counter.usage();
  const read = details.prompt_tokens_details.cached_tokens;
  const hour = Math.max(0, marked["1h"] - read);
  const minutes = Math.max(0, marked["5m"] - Math.max(read, marked["1h"]));
  const moved = details.perigee?.moved_noise;
  return {
    input_tokens: prompt - read - hour - minutes,
    cache_creation_input_tokens: hour + minutes,
    cache_read_input_tokens: read,
    cache_creation: { ephemeral_5m_input_tokens: minutes, ephemeral_1h_input_tokens: hour },
    output_tokens: completion_tokens,
    ...(moved !== undefined && { perigee: { moved_noise: moved } }),
  };
}
