/** Request fields that several of Ollama's routes have. */
import { z } from "zod";
import type { ServerContext } from "../context.ts";
import { anyObject } from "../openai/bounded.ts";
import type { ChatRequest } from "../openai/chat-request.ts";
import { checkModelName } from "../openai/delivery.ts";
import { ignored, stopField, unsupported } from "../openai/fields.ts";
import { fieldError } from "../openai/parse-request.ts";

const number = z.number().nullish();
const count = z.int().nullish();

/** How Ollama's own runner works: this engine's settings are those of the server. */
const RUNNER_OPTIONS = [
  ...["num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_gqa", "use_mmap"],
  ...["use_mlock", "low_vram", "f16_kv", "numa", "vocab_only", "logits_all", "repeat_last_n"],
  ...["penalize_newline", "mirostat_eta", "mirostat_tau", "embedding_only"],
] as const;

type Ignored = typeof ignored;

const runnerOptions = Object.fromEntries(RUNNER_OPTIONS.map((name) => [name, ignored])) as Record<
  (typeof RUNNER_OPTIONS)[number],
  Ignored
>;

/** `options`: sampling and lengths. */
export const optionsField = z
  .strictObject({
    num_predict: z.int().min(-2).nullish(),
    num_ctx: z.int().min(1).nullish(),
    temperature: number,
    top_p: number,
    top_k: count,
    min_p: number,
    seed: count,
    stop: stopField,
    repeat_penalty: number,
    presence_penalty: number,
    frequency_penalty: number,
    mirostat: unsupported(0),
    tfs_z: unsupported(1),
    typical_p: unsupported(1),
    ...runnerOptions,
  })
  .nullish();
type OllamaOptions = z.output<typeof optionsField>;

/** Fields of the routes that generate. */
export const generatingFields = {
  model: z.string(),
  options: optionsField,
  format: z
    .union([z.literal(["", "json"]), anyObject], 'must be "json" or a JSON schema')
    .nullish(),
  stream: z.boolean().nullish(),
  think: z.union([z.boolean(), z.string()], "must be true, false or a level").nullish(),
  keep_alive: z
    .union([z.string(), z.number()], "must be a number of seconds or a duration")
    .nullish(),
  truncate: ignored,
  shift: ignored,
  logprobs: unsupported(false),
  top_logprobs: unsupported(0),
};

const GeneratingRequest = z.object(generatingFields);
type GeneratingRequest = z.output<typeof GeneratingRequest>;

/** Throws MODEL_NOT_FOUND; `NAME:latest` is what Ollama's clients call `NAME`. */
export function servedName(context: ServerContext, name: string): string {
  const plain = name.endsWith(LATEST) ? name.slice(0, -LATEST.length) : name;
  checkModelName(context, context.modelNames.includes(name) ? name : plain);
  return name;
}

const LATEST = ":latest";

/** The fields of a chat that decide how its answer is drawn. Throws INVALID_ARGUMENT. */
export function drawingOf(
  { options, format, think }: GeneratingRequest,
  contextTokensMax: number,
): Partial<ChatRequest> {
  checkContext(options, contextTokensMax);
  const { num_predict: wanted } = options ?? {};
  return {
    temperature: options?.temperature,
    top_p: options?.top_p,
    top_k: options?.top_k,
    min_p: options?.min_p,
    seed: options?.seed,
    stop: options?.stop,
    repetition_penalty: options?.repeat_penalty,
    presence_penalty: options?.presence_penalty,
    frequency_penalty: options?.frequency_penalty,
    ...(wanted != null && wanted >= 0 && { max_tokens: wanted }),
    ...responseFormat(format),
    ...thinkingOf(think),
  };
}

/** A level is a wish to think; templates without the variable ignore it. */
export function thinkingOf(
  think: GeneratingRequest["think"],
): Pick<ChatRequest, "chat_template_kwargs"> {
  return think == null ? {} : { chat_template_kwargs: { enable_thinking: think !== false } };
}

/** A longer context than the served one would drop the beginning of prompts, without a word. */
function checkContext(options: OllamaOptions, contextTokensMax: number): void {
  const wanted = options?.num_ctx ?? 0;
  if (wanted <= contextTokensMax) return;
  throw fieldError(
    "options.num_ctx",
    `must be at most ${contextTokensMax}, the context that the server was started with, current ` +
      `value is ${wanted}; leave it out, or start the server with contextTokensMax ` +
      `(--context-tokens-max ${wanted})`,
  );
}

function responseFormat(format: GeneratingRequest["format"]): Pick<ChatRequest, "response_format"> {
  if (format == null || format === "") return {};
  if (format === "json") return { response_format: { type: "json_object" } };
  if (typeof format === "string") return {};
  return {
    response_format: { type: "json_schema", json_schema: { name: "format", schema: format } },
  };
}
