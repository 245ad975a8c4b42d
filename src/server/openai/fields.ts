/** Request fields of several endpoints. All accept null for "not given", as OpenAI's API does. */
import { z } from "zod";
import { anyObject, boundedList, boundedRecord, LIST_LIMITS } from "./bounded.ts";
import { retentionField } from "./retention-request.ts";

/** Maximum alternatives per token; a whole vocabulary would be megabytes of JSON per token. */
export const LOGPROBS_MAX = 20;

const tokenIdMax = 2 ** 31 - 1;

/** Whether `value` is a list of token ids; one pass, because a body may hold a million of them. */
export function isTokenIds(value: unknown): value is number[] {
  if (!Array.isArray(value) || value.length === 0) return false;
  let place = 0;
  while (place < value.length && isTokenId(value[place])) place++;
  return place === value.length;
}

function isTokenId(id: unknown): boolean {
  return typeof id === "number" && Number.isInteger(id) && id >= 0 && id <= tokenIdMax;
}

/** A field that is accepted and has no effect. */
export const ignored = z.unknown().optional();

/** A field that Perigee's engine does not support yet, except at its neutral value. */
export function unsupported(neutral?: string | number | boolean) {
  const message = "is not supported in this version";
  return neutral === undefined ? z.null(message).optional() : z.literal(neutral, message).nullish();
}

const count = z.int().nullish();
const number = z.number().nullish();
const flag = z.boolean().nullish();
const text = z.string().nullish();
const schemaText = z.union([z.string(), anyObject]);

/** vLLM's `structured_outputs`. */
const structuredOutputs = z.strictObject({
  json: schemaText.nullish(),
  json_object: flag,
  regex: text,
  choice: boundedList(z.string(), { max: LIST_LIMITS.choice }).nullish(),
  grammar: text,
  structural_tag: schemaText.nullish(),
  disable_any_whitespace: ignored,
  disable_additional_properties: ignored,
  disable_fallback: ignored,
  whitespace_pattern: ignored,
});

/** OpenAI's `response_format`. */
const responseFormat = z.discriminatedUnion(
  "type",
  [
    z.strictObject({ type: z.literal("text") }),
    z.strictObject({ type: z.literal("json_object") }),
    z.strictObject({
      type: z.literal("json_schema"),
      json_schema: z.strictObject({
        name: z.string(),
        description: text,
        schema: anyObject.nullish(),
        strict: flag,
      }),
    }),
    z.looseObject({ type: z.literal("structural_tag") }),
  ],
  "must have type text, json_object, json_schema or structural_tag",
);
export type ResponseFormat = z.output<typeof responseFormat>;

/** OpenAI's predicted output: a text, or parts of one. */
const predictedContent = z.union([
  z.string(),
  boundedList(z.strictObject({ type: z.literal("text"), text: z.string() }), {
    max: LIST_LIMITS.contentParts,
  }),
]);

/** Texts that end an output. */
export const stopField = z
  .union(
    [z.string(), boundedList(z.string(), { max: LIST_LIMITS.stop })],
    `must be a string or a list of at most ${LIST_LIMITS.stop}`,
  )
  .nullish();

/** Sampling fields. Types are checked here, ranges by the engine's schema. */
export const samplingFields = {
  n: count,
  temperature: number,
  top_p: number,
  top_k: count,
  min_p: number,
  repetition_penalty: number,
  presence_penalty: number,
  frequency_penalty: number,
  seed: count,
  stop: stopField,
  stop_token_ids: boundedList(z.int(), { max: LIST_LIMITS.stop_token_ids }).nullish(),
  include_stop_str_in_output: flag,
  ignore_eos: flag,
  min_tokens: count,
  max_tokens: count,
  prompt_logprobs: z.int().min(0).max(LOGPROBS_MAX).nullish(),
  logit_bias: boundedRecord(z.string().regex(/^\d+$/, "must be a token id"), z.number(), {
    max: LIST_LIMITS.logit_bias,
  }).nullish(),
  allowed_token_ids: z
    .custom<number[]>(
      (value) => isTokenIds(value) && value.length <= LIST_LIMITS.allowed_token_ids,
      `must be a list of 1 to ${LIST_LIMITS.allowed_token_ids} token ids`,
    )
    .nullish(),
  bad_words: boundedList(z.string(), { max: LIST_LIMITS.bad_words }).nullish(),
  skip_special_tokens: flag,
  spaces_between_special_tokens: flag,
  use_beam_search: flag,
  beam_width: count,
  length_penalty: number,
  early_stopping: z
    .union([z.boolean(), z.literal("never")], 'must be true, false or "never"')
    .nullish(),
  speculative: z
    .union(
      [z.boolean(), z.strictObject({ kind: text, length: count, width: count })],
      "must be true, false or {kind, length, width}",
    )
    .nullish(),
  prediction: z.strictObject({ type: z.literal("content"), content: predictedContent }).nullish(),
};

/** Structured output fields; at most one of them may be given. */
export const structureFields = {
  response_format: responseFormat.nullish(),
  structured_outputs: structuredOutputs.nullish(),
  guided_json: schemaText.nullish(),
  guided_regex: text,
  guided_choice: boundedList(z.string(), { max: LIST_LIMITS.choice }).nullish(),
  guided_grammar: text,
  guided_decoding_backend: ignored,
  guided_whitespace_pattern: ignored,
};

const deadline = z.number().positive().max(1e9).nullish();

/** Read by routers, which reject what would miss them; a server alone takes what it can queue. */
const deadlinesField = z.strictObject({ ttft_ms: deadline, tbt_ms: deadline }).nullish();

/** The number that the word `batch` stands for: behind all others. */
export const BATCH_PRIORITY: number = Number.MAX_SAFE_INTEGER;

/** Fields for the format of the answer, priority, caching and retention. */
export const deliveryFields = {
  model: text,
  stream: flag,
  stream_options: z
    .strictObject({
      include_usage: flag,
      continuous_usage_stats: flag,
      include_obfuscation: ignored,
    })
    .nullish(),
  echo: flag,
  truncate_prompt_tokens: z.int().min(-1).nullish(),
  truncation_side: unsupported("left"),
  priority: z.union([z.int(), z.literal("batch")]).nullish(),
  deadlines: deadlinesField,
  cache_salt: z.string().min(1).max(1024).nullish(),
  kv_cache_retention_config: retentionField,
  request_id: z.string().min(1).max(256).nullish(),
  return_token_ids: flag,
  /** Usage says what the request occupied: no two runs have the same figure. */
  return_kv_byte_seconds: flag,
  return_tokens_as_token_ids: flag,
};

/** Fields that clients send and that have no effect. */
export const ignoredFields = {
  user: ignored,
  store: ignored,
  metadata: ignored,
  service_tier: ignored,
  safety_identifier: ignored,
  prompt_cache_key: ignored,
  prompt_cache_retention: ignored,
  prompt_cache_options: ignored,
};

/** Fields of other engines and of later versions. */
export const unsupportedFields = {
  logprob_token_ids: unsupported(),
  repetition_detection: unsupported(),
  thinking_token_budget: unsupported(),
  prompt_embeds: unsupported(),
  kv_transfer_params: unsupported(),
  ec_transfer_params: unsupported(),
  vllm_xargs: unsupported(),
  // Routers made for SGLang add these to every request, with values that change nothing here.
  no_stop_trim: unsupported(false),
  separate_reasoning: unsupported(true),
  stream_reasoning: unsupported(true),
  return_hidden_states: unsupported(false),
};
