/** What workers say of prompts when their requests are over. */
/** What a worker said of a request when it was over. */
export interface PromptUsage {
  readonly promptTokens: number;
  /** Null: it does not say. */
  readonly cachedTokens: number | null;
  /** Bytes of its KV blocks times seconds that they were held; null: it does not say. */
  readonly kvByteSeconds?: number | null;
}

/** Told of one request at a worker; null: it says nothing; and whether all of its answer came. */
export type EndWatch = (usage: PromptUsage | null, isComplete: boolean) => void;

const NUMBER = {
  prompt: /"(?:prompt|input)_tokens":\s*(\d+)/,
  cached: /"cached_tokens":\s*(\d+)/,
  held: /"kv_byte_seconds":\s*(\d{1,18})/,
};
/** Usage is at the end of an answer. */
const TAIL_BYTES = 2048;

/** Usage of an answer in JSON, found without parsing it; null: there is none. */
export function usageIn(body: Buffer): PromptUsage | null {
  const tail = body.toString("latin1", Math.max(0, body.length - TAIL_BYTES));
  const at = tail.lastIndexOf('"usage"');
  const prompt = at < 0 ? null : NUMBER.prompt.exec(tail.slice(at));
  if (prompt === null) return null;
  const cached = NUMBER.cached.exec(tail.slice(at));
  return {
    promptTokens: Number(prompt[1]),
    cachedTokens: cached === null ? null : Number(cached[1]),
    kvByteSeconds: heldIn(tail.slice(at)),
  };
}

/** Byte-seconds in the usage of an answer or a stream; null: there are none. */
export function heldIn(usage: string): number | null {
  const held = NUMBER.held.exec(usage);
  return held === null ? null : Number(held[1]);
}
