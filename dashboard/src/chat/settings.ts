/** What a request of the chat is sent with, and the request's body. */
import type { Turn } from "./conversation.ts";

/** As they are typed; "": the server's default. */
export interface ChatSettings {
  readonly model: string;
  readonly system: string;
  readonly temperature: string;
  readonly topP: string;
  readonly topK: string;
  readonly minP: string;
  readonly maxTokens: string;
  readonly seed: string;
  readonly stop: string;
  /** JSON: a list of OpenAI's tools. */
  readonly tools: string;
  /** JSON Schema that the answer must follow. */
  readonly schema: string;
  readonly drafts: "default" | "on" | "off";
  /** Retention of the prompt's blocks and of the answer's. */
  readonly promptPriority: string;
  readonly promptSeconds: string;
  readonly answerPriority: string;
  readonly answerSeconds: string;
  readonly cacheSalt: string;
  /** Ids of vector stores, one per line. */
  readonly stores: string;
}

export const DEFAULTS: ChatSettings = {
  ...{ model: "", system: "", temperature: "", topP: "", topK: "", minP: "" },
  ...{ maxTokens: "512", seed: "", stop: "", tools: "", schema: "", drafts: "default" },
  ...{ promptPriority: "", promptSeconds: "", answerPriority: "", answerSeconds: "" },
  ...{ cacheSalt: "", stores: "" },
};

/** The body of POST /v1/chat/completions. Throws an Error that names a setting that cannot be. */
export function bodyOf(settings: ChatSettings, path: readonly Turn[]): object {
  const { system, model, cacheSalt, drafts } = settings;
  const stop = settings.stop.split("\n").filter((line) => line !== "");
  return {
    ...(model !== "" && { model }),
    messages: [
      ...(system.trim() === "" ? [] : [{ role: "system", content: system }]),
      ...path.map(messageOf),
    ],
    stream: true,
    stream_options: { include_usage: true },
    ...numberField("temperature", settings.temperature),
    ...numberField("top_p", settings.topP),
    ...numberField("top_k", settings.topK),
    ...numberField("min_p", settings.minP),
    ...numberField("max_tokens", settings.maxTokens),
    ...numberField("seed", settings.seed),
    ...(stop.length > 0 && { stop }),
    ...toolFields(settings),
    ...schemaField(settings.schema),
    ...(drafts !== "default" && { speculative: drafts === "on" }),
    ...(cacheSalt !== "" && { cache_salt: cacheSalt }),
    ...retentionField(settings),
  };
}

/** A turn as a message; attached files stand before what is said of them. */
function messageOf(turn: Turn): object {
  const { role, toolCalls, toolCallId } = turn;
  const calls = toolCalls.map(({ id, name, arguments: given }) => ({
    ...{ id, type: "function", function: { name, arguments: given } },
  }));
  return {
    role,
    content: contentOf(turn),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(toolCallId !== null && { tool_call_id: toolCallId }),
  };
}

function contentOf({ content, files }: Turn): string {
  const texts = files.map(({ name, text }) => `File ${name}:\n${fence(text)}`);
  return [...texts, content].join("\n\n");
}

/** A fence that the text does not contain. */
function fence(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const mark = "`".repeat(longest + 1);
  return `${mark}\n${text}\n${mark}`;
}

function numberField(name: string, typed: string): object {
  if (typed.trim() === "") return {};
  const value = Number(typed);
  if (Number.isFinite(value)) return { [name]: value };
  throw new Error(`${name} must be a number, it is ${typed.slice(0, 40)}`);
}

function toolFields({ tools, stores }: ChatSettings): object {
  const ids = stores.split(/[\s,]+/).filter((id) => id !== "");
  if (ids.length > 0) return { tools: [{ type: "file_search", vector_store_ids: ids }] };
  if (tools.trim() === "") return {};
  const list = jsonOf("tools", tools);
  if (!Array.isArray(list)) throw new Error("tools must be a list: [{ … }]");
  return { tools: list };
}

function schemaField(typed: string): object {
  if (typed.trim() === "") return {};
  const schema = jsonOf("the schema", typed);
  return {
    response_format: { type: "json_schema", json_schema: { name: "answer", strict: true, schema } },
  };
}

function retentionField(settings: ChatSettings): object {
  const { promptPriority, promptSeconds, answerPriority, answerSeconds } = settings;
  const prompt = {
    ...numberField("priority", promptPriority),
    ...milliseconds("duration_ms", promptSeconds),
  };
  const answer = {
    ...numberField("decode_retention_priority", answerPriority),
    ...milliseconds("decode_duration_ms", answerSeconds),
  };
  if (Object.keys(prompt).length + Object.keys(answer).length === 0) return {};
  const ranges = Object.keys(prompt).length > 0 ? [{ token_start: 0, ...prompt }] : [];
  return { kv_cache_retention_config: { token_range_retention_configs: ranges, ...answer } };
}

function milliseconds(name: string, typed: string): object {
  const field = numberField(name, typed);
  return Object.fromEntries(Object.entries(field).map(([key, value]) => [key, value * 1000]));
}

function jsonOf(name: string, typed: string): unknown {
  try {
    return JSON.parse(typed);
  } catch {
    throw new Error(`${name} must be JSON`);
  }
}
