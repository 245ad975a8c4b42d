import { APICallError } from "@ai-sdk/provider";
import type { AnswerUsage, ChatRequest, ChatSource, ChatSourceEvent } from "./chat-source.ts";
import { serverEvents } from "./server-events.ts";

/** Where a server is. */
export interface ServerSettings {
  /** With `/v1`, as clients of OpenAI's API take it. */
  readonly baseURL: string;
  readonly apiKey?: string;
  /** Of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the global one. */
  readonly fetch?: typeof fetch;
}

/** A chunk of a streamed chat, as far as it is read. */
interface Chunk {
  readonly error?: { readonly message?: string };
  readonly choices?: readonly {
    readonly delta?: {
      readonly content?: string | null;
      readonly reasoning_content?: string | null;
      readonly tool_calls?: readonly {
        readonly index: number;
        readonly id?: string;
        readonly function?: { readonly name?: string; readonly arguments?: string };
      }[];
    };
    readonly finish_reason?: string | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens?: number;
    readonly completion_tokens?: number;
    readonly prompt_tokens_details?: { readonly cached_tokens?: number };
    readonly completion_tokens_details?: { readonly reasoning_tokens?: number };
  } | null;
}

/** A server, or a router, for the model of that name. */
export function byUrl(settings: ServerSettings, modelId: string): ChatSource {
  return {
    chat: (request) => chat(settings, modelId, request),
    embed: async ({ values, dimensions, signal, headers }) => {
      const body = { model: modelId, input: values, dimensions, encoding_format: "float" };
      const response = await post(settings, "/embeddings", { body, signal, headers });
      // The form of OpenAI's answers, which the server promises.
      const answer = (await response.json()) as {
        readonly data: readonly { readonly embedding: number[] }[];
        readonly usage?: { readonly prompt_tokens?: number };
      };
      return {
        embeddings: answer.data.map(({ embedding }) => embedding),
        tokens: answer.usage?.prompt_tokens ?? 0,
      };
    },
  };
}

async function* chat(
  settings: ServerSettings,
  modelId: string,
  request: ChatRequest,
): AsyncGenerator<ChatSourceEvent> {
  const { signal, headers } = request;
  const body = bodyOf(modelId, request);
  const response = await post(settings, "/chat/completions", { body, signal, headers });
  if (response.body === null) throw new Error("The server's answer has no body");
  const calls: { readonly id: string; readonly name: string; text: string }[] = [];
  let finishReason = "interrupted";
  let usage: AnswerUsage | null = null;
  for await (const data of serverEvents(response.body)) {
    const chunk = JSON.parse(data) as Chunk;
    if (chunk.error !== undefined) throw new Error(chunk.error.message ?? "The server failed");
    usage = usageOf(chunk) ?? usage;
    const choice = chunk.choices?.[0];
    finishReason = choice?.finish_reason ?? finishReason;
    const { reasoning_content: thought, content, tool_calls: deltas = [] } = choice?.delta ?? {};
    if (thought) yield { type: "reasoning", text: thought };
    if (content) yield { type: "text", text: content };
    for (const { index, id, function: called } of deltas) {
      if (id !== undefined) {
        calls[index] = { id, name: called?.name ?? "", text: "" };
        yield { type: "tool-call-start", id, name: called?.name ?? "" };
      }
      const call = calls[index];
      const text = called?.arguments ?? "";
      if (call === undefined || text === "") continue;
      call.text += text;
      yield { type: "tool-call-delta", id: call.id, text };
    }
  }
  for (const { id, name, text } of calls) {
    yield { type: "tool-call", call: { id, name, argumentsText: text } };
  }
  const none = { promptTokens: 0, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };
  yield {
    type: "end",
    result: { finishReason: finishReason.replace("_", "-"), usage: usage ?? none },
  };
}

function usageOf({ usage }: Chunk): AnswerUsage | null {
  if (usage === null || usage === undefined) return null;
  return {
    promptTokens: usage.prompt_tokens ?? 0,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    completionTokens: usage.completion_tokens ?? 0,
    reasoningTokens: usage.completion_tokens_details?.reasoning_tokens ?? 0,
  };
}

/** By the names of the HTTP API. */
function bodyOf(modelId: string, request: ChatRequest): Record<string, unknown> {
  const { sampling, tools, toolChoice, output, thinking, retention } = request;
  const variables = {
    ...(thinking === undefined ? {} : { enable_thinking: thinking }),
    ...request.templateVariables,
  };
  return {
    model: modelId,
    messages: request.messages,
    stream: true,
    stream_options: { include_usage: true },
    max_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    seed: sampling.seed,
    stop: sampling.stop,
    speculative: sampling.speculative,
    ...(tools.length === 0
      ? {}
      : { tools: tools.map((tool) => ({ type: "function", function: tool })) }),
    ...(tools.length === 0 ? {} : { tool_choice: choiceOf(toolChoice) }),
    parallel_tool_calls: request.parallelToolCalls,
    response_format: output === null ? undefined : formatOf(output),
    ...(Object.keys(variables).length === 0 ? {} : { chat_template_kwargs: variables }),
    ...(retention === undefined ? {} : { kv_cache_retention_config: retentionOf(retention) }),
    cache_salt: request.cacheSalt,
    priority: request.priority,
  };
}

function choiceOf(choice: ChatRequest["toolChoice"]): unknown {
  return typeof choice === "string" ? choice : { type: "function", function: choice };
}

function formatOf(output: NonNullable<ChatRequest["output"]>): unknown {
  if ("jsonObject" in output) return { type: "json_object" };
  return { type: "json_schema", json_schema: { name: "answer", schema: output.json } };
}

function retentionOf(retention: NonNullable<ChatRequest["retention"]>): unknown {
  return {
    token_range_retention_configs: (retention.ranges ?? []).map((range) => ({
      token_start: range.start,
      token_end: range.end,
      priority: range.priority,
      duration_ms: range.durationMs,
    })),
    decode_retention_priority: retention.decodePriority,
    decode_duration_ms: retention.decodeDurationMs,
  };
}

interface Posting {
  readonly body: Record<string, unknown>;
  readonly signal: AbortSignal | undefined;
  readonly headers: Readonly<Record<string, string | undefined>> | undefined;
}

/** Posts JSON. Rejects with an APICallError where the answer's status is none of success. */
async function post(
  settings: ServerSettings,
  path: string,
  { body, signal, headers }: Posting,
): Promise<Response> {
  const url = `${settings.baseURL.replace(/\/+$/, "")}${path}`;
  const { apiKey } = settings;
  const given = { ...settings.headers, ...headers };
  const known = Object.entries(given).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  const response = await (settings.fetch ?? fetch)(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      ...Object.fromEntries(known),
    },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  if (response.ok) return response;
  const responseBody = await response.text();
  throw new APICallError({
    message: messageIn(responseBody) ?? `The server answered ${response.status}`,
    ...{ url, requestBodyValues: body, statusCode: response.status, responseBody },
    responseHeaders: Object.fromEntries(response.headers),
  });
}

function messageIn(body: string): string | null {
  try {
    const { error } = JSON.parse(body) as { readonly error?: { readonly message?: unknown } };
    return typeof error?.message === "string" ? error.message : null;
  } catch {
    return null; // a proxy may answer with a page
  }
}
