/** Converts a request's delivery fields to the engine's options; checks the model name. */

import { z } from "zod";
import { EngineError, shortText } from "#base";
import type { GenerateOptions } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import { BATCH_PRIORITY, deliveryFields } from "./fields.ts";
import { retentionConfig } from "./retention-request.ts";
import type { StreamUsage } from "./usage.ts";

const DeliveryRequest = z.object(deliveryFields);
type DeliveryRequest = z.output<typeof DeliveryRequest>;

let serial = 0;

/** Signal, salt, retention, priority, and an id that is unique even if the client's is not. */
export function deliveryOptions(request: DeliveryRequest, call: Call): GenerateOptions {
  serial += 1;
  const { cache_salt: cacheSalt, priority } = request;
  const retention = retentionConfig(request.kv_cache_retention_config);
  return {
    signal: call.signal,
    requestId: `${call.id}-${serial}`,
    ...(request.return_kv_byte_seconds === true && { returnKvByteSeconds: true }),
    ...(typeof cacheSalt === "string" ? { cacheSalt } : {}),
    ...(retention === null ? {} : { retention }),
    ...(priority == null ? {} : { priority: priorityOf(priority) }),
  };
}

/** As the scheduler orders requests: smaller ones first. */
export function priorityOf(priority: DeliveryRequest["priority"]): number {
  return priority === "batch" ? BATCH_PRIORITY : (priority ?? 0);
}

const NAMES_SHOWN_MAX = 4;

/** Throws MODEL_NOT_FOUND (HTTP 404) for another model's name. No name: the served model. */
export function checkModelName(context: ServerContext, name: string | null | undefined): void {
  if (name === null || name === undefined || context.modelNames.includes(name)) return;
  // vLLM's message, and what to ask for.
  const served = context.modelNames.slice(0, NAMES_SHOWN_MAX).join(", ");
  const message = `The model \`${shortText(name)}\` does not exist. This server has ${served}.`;
  throw new EngineError("MODEL_NOT_FOUND", message, { param: "model" });
}

/** The requested number of new tokens. `max_completion_tokens`, the newer name, has precedence. */
interface LengthRequest {
  readonly max_tokens?: number | null | undefined;
  readonly max_completion_tokens?: number | null | undefined;
}

/**
 * Throws PROMPT_TOO_LONG (HTTP 400) if a request asks for more new tokens than fit in the context
 * beside its prompt, as vLLM does. The engine rejects a prompt that itself does not fit.
 */
export function checkRoom(
  promptTokens: number,
  contextTokensMax: number,
  request: LengthRequest,
): void {
  const field = request.max_completion_tokens == null ? "max_tokens" : "max_completion_tokens";
  const wanted = request[field] ?? 0;
  const room = contextTokensMax - promptTokens;
  if (wanted <= room || room <= 0) return;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot use ${field}: prompt and output must fit the model's maximum context length of ` +
      `${contextTokensMax} tokens, current values are ${promptTokens} for the prompt and ` +
      `${wanted} for ${field}; ask for at most ${room}`,
    { param: field },
  );
}

export function streamUsage({ stream_options: options }: DeliveryRequest): StreamUsage {
  const atEnd = options?.include_usage === true;
  return { atEnd, everyChunk: atEnd && options?.continuous_usage_stats === true };
}

/** Drops leading tokens if the request sets a number to keep; -1 leaves room for the output. */
export function truncatePrompt(
  ids: number[],
  request: DeliveryRequest,
  room: { readonly contextTokensMax: number; readonly maxTokens: number | null },
): number[] {
  const wanted = request.truncate_prompt_tokens ?? null;
  if (wanted === null) return ids;
  const kept = wanted === -1 ? room.contextTokensMax - (room.maxTokens ?? 1) : wanted;
  return ids.slice(Math.max(0, ids.length - Math.max(1, kept)));
}
