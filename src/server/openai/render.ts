/**
 * POST /v1/chat/completions/render and /v1/completions/render, as in vLLM: the prompt's token ids
 * and the parameters that a request would have, without running it.
 */
import { EngineError } from "#base";
import type { GenerateOptions } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "./answer.ts";
import { chatGeneration } from "./chat-generation.ts";
import { ChatRequest } from "./chat-request.ts";
import { completionsGeneration } from "./completions-generation.ts";
import { CompletionsRequest } from "./completions-request.ts";
import { checkModelName, priorityOf } from "./delivery.ts";
import { fieldError, parseRequest } from "./parse-request.ts";

/** One object: a conversation is one prompt. */
export async function renderChat(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(ChatRequest, body);
  checkModelName(context, request.model);
  const { id, prompt, options, modelName } = await chatGeneration(context, request, call);
  return { kind: "json", value: rendered({ id, modelName, options, request, context }, prompt) };
}

/** A list with an object per prompt. */
export async function renderCompletions(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const request = parseRequest(CompletionsRequest, body);
  checkModelName(context, request.model);
  const { id, prompts, options, modelName } = await completionsGeneration(context, request, call);
  const value = prompts.map((prompt, place) =>
    rendered({ id: `${id}-${place}`, modelName, options, request, context }, prompt),
  );
  return { kind: "json", value };
}

interface Rendering {
  readonly id: string;
  readonly modelName: string;
  readonly options: GenerateOptions;
  readonly context: ServerContext;
  readonly request: Pick<ChatRequest, "stream" | "cache_salt" | "priority">;
}

function rendered(
  { id, modelName, options, request, context }: Rendering,
  { promptTokenIds }: { readonly promptTokenIds: readonly number[] },
): unknown {
  checkLength(promptTokenIds.length, context);
  checkIds(promptTokenIds, options, context);
  return {
    request_id: id,
    token_ids: promptTokenIds,
    features: null,
    sampling_params: samplingParams(options),
    model: modelName,
    stream: request.stream ?? false,
    cache_salt: request.cache_salt ?? null,
    priority: priorityOf(request.priority),
  };
}

/** As the engine does: it sees no prompt that is only rendered. */
function checkLength(tokens: number, { model }: ServerContext): void {
  const { contextTokensMax } = model.info;
  if (tokens < contextTokensMax) return;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot render prompt: at most ${contextTokensMax - 1} tokens leave room for an answer, ` +
      `current value is ${tokens}`,
    { param: "prompt" },
  );
}

function checkIds(
  prompt: readonly number[],
  { stopTokenIds = [], allowedTokenIds, logitBias = {} }: GenerateOptions,
  { model }: ServerContext,
): void {
  const { vocabularySize } = model.info;
  const fields: readonly (readonly [string, readonly number[]])[] = [
    ["prompt", prompt],
    ["stop_token_ids", stopTokenIds],
    ["allowed_token_ids", allowedTokenIds ?? []],
    ["logit_bias", Object.keys(logitBias).map(Number)],
  ];
  for (const [field, ids] of fields) {
    const unknown = ids.find((id) => id >= vocabularySize);
    if (unknown === undefined) continue;
    throw fieldError(field, `must be below ${vocabularySize}, current value is ${unknown}`);
  }
}

/** vLLM's names; a router reads the length and the draws of a request from them. */
function samplingParams(options: GenerateOptions): unknown {
  return {
    n: options.n ?? 1,
    temperature: options.temperature ?? 1,
    top_p: options.topP ?? 1,
    top_k: options.topK ?? 0,
    min_p: options.minP ?? 0,
    presence_penalty: options.presencePenalty ?? 0,
    frequency_penalty: options.frequencyPenalty ?? 0,
    repetition_penalty: options.repetitionPenalty ?? 1,
    seed: typeof options.seed === "bigint" ? Number(options.seed) : (options.seed ?? null),
    stop: options.stop ?? [],
    stop_token_ids: options.stopTokenIds ?? [],
    ignore_eos: options.ignoreEos ?? false,
    min_tokens: options.minTokens ?? 0,
    max_tokens: options.maxTokens ?? null,
    logprobs: options.logprobs ?? null,
    prompt_logprobs: options.promptLogprobs ?? null,
    skip_special_tokens: options.skipSpecialTokens ?? true,
  };
}
