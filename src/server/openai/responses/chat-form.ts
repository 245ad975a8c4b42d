/** A request for a response in the form of a chat request, which the chat's own code answers. */
import { EngineError } from "#base";
import type { ServerConfig } from "../../config.ts";
import type { ChatRequest } from "../chat-request.ts";
import type { ResponseRequest, ResponseTool } from "./response-request.ts";

/** Above what requests have that say nothing, below what is kept on purpose. */
const WARM_PRIORITY = 50;

/** What a chat is made from beside the request. */
export interface ChatParts {
  readonly messages: ChatRequest["messages"];
  /** Of the conversation so far; null: none. */
  readonly cacheSalt: string | null;
  readonly config: Pick<ServerConfig, "responsesWarmMs" | "responsesStoredMax">;
}

/** The chat that a request asks for. */
export function chatRequestOf(request: ResponseRequest, parts: ChatParts): ChatRequest {
  const { messages, cacheSalt } = parts;
  const { text, tools, reasoning, perigee, include } = request;
  const salt = request.cache_salt ?? cacheSalt;
  const effort = reasoning?.effort ?? null;
  const withLogprobs = include?.includes("message.output_text.logprobs") === true;
  return {
    ...samplingOf(request),
    messages,
    model: request.model,
    stream: request.stream,
    max_completion_tokens: request.max_output_tokens,
    ...(tools != null && { tools: tools.map(chatTool) }),
    tool_choice: toolChoiceOf(request),
    parallel_tool_calls: request.parallel_tool_calls,
    response_format: formatOf(text?.format ?? null),
    logprobs: withLogprobs,
    top_logprobs: withLogprobs ? request.top_logprobs : null,
    priority: request.priority,
    deadlines: request.deadlines,
    request_id: request.request_id,
    ...(salt !== null && { cache_salt: salt }),
    kv_cache_retention_config: retentionOf(request, parts.config),
    chat_template_kwargs: { ...effortVariables(effort), ...request.chat_template_kwargs },
    ...(perigee != null && { perigee }),
  };
}

function samplingOf(request: ResponseRequest): Omit<ChatRequest, "messages"> {
  const { temperature, top_p, top_k, min_p, seed, stop, ignore_eos, min_tokens } = request;
  const { repetition_penalty, presence_penalty, frequency_penalty, speculative } = request;
  const penalties = { repetition_penalty, presence_penalty, frequency_penalty };
  return {
    temperature,
    top_p,
    top_k,
    min_p,
    seed,
    stop,
    ignore_eos,
    min_tokens,
    speculative,
    ...penalties,
  };
}

/** As templates of reasoning models name it; others do not read it. */
function effortVariables(effort: string | null): Readonly<Record<string, unknown>> {
  if (effort === null) return {};
  if (effort === "none") return { enable_thinking: false };
  return { reasoning_effort: effort, enable_thinking: true };
}

function chatTool(tool: ResponseTool): NonNullable<ChatRequest["tools"]>[number] {
  if (tool.type === "file_search") return tool;
  const { type, ...described } = tool;
  return { type, function: described };
}

function toolChoiceOf({ tool_choice: choice }: ResponseRequest): ChatRequest["tool_choice"] {
  if (choice == null || typeof choice === "string" || choice.type === "file_search") return choice;
  return { type: "function", function: { name: choice.name } };
}

type Format = NonNullable<NonNullable<ResponseRequest["text"]>["format"]>;

function formatOf(format: Format | null): ChatRequest["response_format"] {
  if (format === null || format.type !== "json_schema") return format;
  const { type, ...described } = format;
  return { type, json_schema: described };
}

/**
 * What the request says; else a stored conversation stays in the cache longer than what no request
 * will go on with.
 */
function retentionOf(
  request: ResponseRequest,
  { responsesWarmMs: warmMs, responsesStoredMax }: ChatParts["config"],
): ChatRequest["kv_cache_retention_config"] {
  const given = request.kv_cache_retention_config ?? null;
  if (given !== null || request.store === false) return given;
  if (warmMs === 0 || responsesStoredMax === 0) return null;
  const whole = { token_start: 0, token_end: null, priority: WARM_PRIORITY, duration_ms: warmMs };
  return {
    token_range_retention_configs: [whole],
    decode_retention_priority: WARM_PRIORITY,
    decode_duration_ms: warmMs,
  };
}

/** Fields of chats, by their names in requests for responses. */
const RENAMED: readonly (readonly [string, string])[] = [
  ["max_completion_tokens", "max_output_tokens"],
  ["max_tokens", "max_output_tokens"],
  ["response_format", "text.format"],
  ["messages", "input"],
];

/** Runs what speaks of a chat; its errors name the request's own fields. */
export async function named<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw ownWords(error);
  }
}

function ownWords(error: unknown): unknown {
  if (!(error instanceof EngineError)) return error;
  const { code, message, param, cause, retryAfterSeconds } = error;
  const [from, to] = RENAMED.find(([name]) => param?.startsWith(name) === true) ?? [];
  if (param === null || from === undefined || to === undefined) return error;
  const field = to + param.slice(from.length);
  const words = message.replaceAll(from, to);
  return new EngineError(code, words, {
    ...{ param: field, cause },
    ...(retryAfterSeconds != null && { retryAfterSeconds }),
  });
}
