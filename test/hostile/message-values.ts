/**
 * Which values each field of Anthropic's and Ollama's requests is given, as in field-values.ts: a
 * family of values by the field's last name, and by its path what stands around it.
 */
import type { z } from "zod";
import {
  CountTokensRequest,
  MessagesRequest,
} from "../../src/server/anthropic/messages-request.ts";
import { OllamaChatRequest } from "../../src/server/ollama/ollama-chat.ts";
import {
  OllamaEmbeddingsRequest,
  OllamaEmbedRequest,
} from "../../src/server/ollama/ollama-embed.ts";
import { OllamaGenerateRequest } from "../../src/server/ollama/ollama-generate.ts";
import { OllamaShowRequest } from "../../src/server/ollama/ollama-models.ts";
import { FIELD_VALUES } from "./field-values.ts";
import { type JsonFields, type JsonText, longText, nested, repeated } from "./json-text.ts";
import { fieldPaths } from "./request-schemas.ts";
import * as family from "./value-families.ts";

/** How a route's answers are framed. */
export type DoorForm = "anthropic" | "ollama";

/** A route, a small right body for it, and where its nested fields stand. */
export interface MessageRoute {
  readonly path: string;
  readonly form: DoorForm;
  readonly schema: z.ZodType;
  readonly body: JsonFields;
  /** By the path of an object: the top field's value, with the object's further fields for `@`. */
  readonly around: Readonly<Record<string, JsonText>>;
  /** Where `stream` is true, or false. */
  readonly streams: boolean;
}

const block = (fields: string): string => `[{"role":"user","content":[{${fields},@}]}]`;
const use = '"type":"tool_use","id":"a","name":"f","input":{}';
const result = '"type":"tool_result","tool_use_id":"a"';
const mark = '"cache_control":{"type":"ephemeral",@}';
const tool = '"name":"f","input_schema":{"type":"object"}';

const messageAround = {
  "system[]": '[{"type":"text","text":"Be kind.",@}]',
  "system[].cache_control": `[{"type":"text","text":"Be kind.",${mark}}]`,
  "messages[]": '[{"role":"user","content":"Hi",@}]',
  "messages[].content[]": block('"type":"text","text":"Hi"'),
  "messages[].content[].cache_control": block(`"type":"text","text":"Hi",${mark}`).replace(
    ",@}]}]",
    "}]}]",
  ),
  "messages[].content[].content[]": block(
    `${result},"content":[{"type":"text","text":"1",@}]`,
  ).replace(",@}]}]", "}]}]"),
  "messages[].content[].content[].cache_control": block(
    `${result},"content":[{"type":"text","text":"1",${mark}}]`,
  ).replace(",@}]}]", "}]}]"),
  "tools[]": `[{${tool},@}]`,
  "tools[].cache_control": `[{${tool},${mark}}]`,
  tool_choice: '{"type":"tool","name":"f",@}',
  thinking: '{"type":"enabled","budget_tokens":1024,@}',
  output_config: "{@}",
  "output_config.format": '{"format":{"type":"json_schema","schema":{"type":"null"},@}}',
  metadata: "{@}",
  cache_control: '{"type":"ephemeral",@}',
};

/** Blocks whose fields others do not have, by the field. */
export const OWN_BLOCKS: Readonly<Record<string, string>> = {
  "messages[].content[].id": `[{"role":"assistant","content":[{${use},@}]}]`,
  "messages[].content[].name": `[{"role":"assistant","content":[{${use},@}]}]`,
  "messages[].content[].input": `[{"role":"assistant","content":[{${use},@}]}]`,
  "messages[].content[].tool_use_id": block(result),
  "messages[].content[].content": block(result),
  "messages[].content[].is_error": block(result),
  "messages[].content[].thinking":
    '[{"role":"assistant","content":[{"type":"thinking","thinking":"a",@}]}]',
};

const messageBody = {
  ...{ model: '"pocket"', max_tokens: "4", temperature: "0" },
  messages: '[{"role":"user","content":"What is a cache?"}]',
};
const { max_tokens: _length, temperature: _draw, ...countBody } = messageBody;
const options = '{"num_predict":4,"temperature":0}';
const chatTool = '{"type":"function","function":{"name":"f","parameters":{"type":"object"},@}}';
const ollamaAround = { options: '{"num_predict":4,"temperature":0,@}', format: "{@}" };

export const MESSAGE_ROUTES: readonly MessageRoute[] = [
  {
    ...{ path: "/v1/messages", form: "anthropic", schema: MessagesRequest, streams: true },
    ...{ body: messageBody, around: messageAround },
  },
  {
    ...{ path: "/v1/messages/count_tokens", form: "anthropic", schema: CountTokensRequest },
    ...{ body: countBody, around: messageAround, streams: false },
  },
  {
    ...{ path: "/api/chat", form: "ollama", schema: OllamaChatRequest, streams: true },
    body: { model: '"pocket"', messages: messageBody.messages, options },
    around: {
      ...ollamaAround,
      "messages[]": '[{"role":"user","content":"Hi",@}]',
      "messages[].tool_calls[]":
        '[{"role":"assistant","tool_calls":[{"function":{"name":"f"},@}]}]',
      "messages[].tool_calls[].function":
        '[{"role":"assistant","tool_calls":[{"function":{"name":"f",@}}]}]',
      "tools[]": '[{"type":"function","function":{"name":"f"},@}]',
      "tools[].function": `[${chatTool}]`,
    },
  },
  {
    ...{ path: "/api/generate", form: "ollama", schema: OllamaGenerateRequest, streams: true },
    ...{ body: { model: '"pocket"', prompt: '"A cache is"', options }, around: ollamaAround },
  },
  {
    ...{ path: "/api/embed", form: "ollama", schema: OllamaEmbedRequest, streams: false },
    ...{ body: { model: '"pocket"', input: '"A cache"' }, around: ollamaAround },
  },
  {
    ...{ path: "/api/embeddings", form: "ollama", schema: OllamaEmbeddingsRequest },
    ...{ body: { model: '"pocket"', prompt: '"A cache"' }, around: ollamaAround, streams: false },
  },
  {
    ...{ path: "/api/show", form: "ollama", schema: OllamaShowRequest, streams: false },
    ...{ body: { model: '"pocket"' }, around: ollamaAround },
  },
];

const { flag, text, integer, number, word, list, object, anything, unsupported } = family;
const names: family.Family = word('"pocket"');
const schema: family.Family = FIELD_VALUES.guided_json ?? object([]);
const textBlock = '{"type":"text","text":"a"}';
const blocks: family.Family = list(
  textBlock,
  ['"Hi"', `[${textBlock}]`],
  [
    ...text.hostile,
    '[{"type":"image","source":{"type":"base64","data":"aGk="}}]',
    '[{"type":"document","source":{"type":"url","url":"file:///etc/passwd"}}]',
    '[{"type":"server_tool_use","id":"a","name":"web_search","input":{}}]',
    '[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]',
    () => repeated('{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}', 4_096),
    () => repeated('{"type":"tool_result","tool_use_id":"a"}', 4_000),
    () => `[{"type":"tool_use","id":"a","name":"f","input":${nested(60)}}]`,
    () => `[{"type":"text","text":"x-anthropic-billing-header: ${"a=b;".repeat(200_000)}"}]`,
    () => `[{"type":"text","text":${longText("<think>", 50_000)}}]`,
  ],
);
const turns: family.Family = list(
  '{"role":"user","content":"a"}',
  [messageBody.messages],
  [
    '[{"role":"system","content":"a"}]',
    '[{"role":"assistant","content":"a"}]',
    '[{"role":"user","content":null}]',
    '[{"role":"tool","content":"1"},{"role":"tool","content":"2"}]',
    () =>
      repeated('{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f"}]}', 4_000),
  ],
);

/** By the last name of a field. */
export const LEAVES: Readonly<Record<string, family.Family>> = {
  ...Object.fromEntries(
    [
      ...["budget_tokens", "max_tokens", "top_k", "num_predict", "num_ctx", "seed", "dimensions"],
    ].map((name) => [name, integer("1", "4")]),
  ),
  ...Object.fromEntries(
    [
      ...["temperature", "top_p", "min_p", "repeat_penalty", "presence_penalty"],
      ...["frequency_penalty", "mirostat", "tfs_z", "typical_p"],
    ].map((name) => [name, number("0", "1")]),
  ),
  ...Object.fromEntries(
    [
      ...["text", "thinking", "description", "user_id", "cache_salt", "request_id", "prompt"],
      ...["system", "tool_name", "tool_call_id", "tool_use_id", "id", "suffix", "template"],
    ].map((name) => [name, text]),
  ),
  ...Object.fromEntries(
    [
      ...["betas", "speed", "effort", "service_tier", "inference_geo", "context_management"],
      ...["num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread", "num_gqa", "use_mmap"],
      ...["use_mlock", "low_vram", "f16_kv", "numa", "vocab_only", "logits_all"],
      ...["repeat_last_n", "penalize_newline", "mirostat_eta", "mirostat_tau", "embedding_only"],
      ...["truncate", "shift", "keep_alive", "think"],
    ].map((name) => [name, anything]),
  ),
  ...Object.fromEntries(
    [...["stream", "is_error", "disable_parallel_tool_use", "raw", "verbose", "strict"]].map(
      (name) => [name, flag],
    ),
  ),
  ...Object.fromEntries(["type", "role", "ttl", "model", "name"].map((name) => [name, names])),
  ...Object.fromEntries(
    ["container", "logprobs", "top_logprobs", "images", "context"].map((name) => [
      name,
      unsupported(),
    ]),
  ),
  cache_control: object(['{"type":"ephemeral"}'], ['{"type":"ephemeral","ttl":"5 m"}']),
  priority: integer("0"),
  metadata: object(['{"user_id":"a"}']),
  options: object([options]),
  output_config: object(["{}"]),
  function: object(['{"name":"f"}']),
  ...Object.fromEntries(
    ["input_schema", "schema", "format", "parameters"].map((name) => [name, schema]),
  ),
  arguments: object(["{}"]),
  mcp_servers: list("{}", ["[]"]),
  tools: list(
    `{${tool}}`,
    ["[]"],
    [
      '[{"type":"web_search_20250305","name":"web_search"}]',
      '[{"type":"computer_20250124","name":"computer","display_width_px":1}]',
    ],
  ),
  tool_calls: list('{"function":{"name":"f"}}', ["[]"]),
  tool_choice: object(['{"type":"auto"}'], ['{"type":"any"}', '{"type":"tool","name":"g"}']),
  stop: list('"z"', ['"."'], [...family.strangeTextLists]),
  stop_sequences: list('"z"', ['["."]'], [...family.strangeTextLists]),
  content: blocks,
  messages: turns,
  input: list('"a"', ['"a"'], [...text.hostile, ...family.strangeTextLists]),
};

/** A field of a route, with what its hostile values stand in. */
export interface MessageSlot {
  readonly route: MessageRoute;
  readonly field: string;
  readonly values: family.Family | undefined;
  /** The whole top field's value; null: the path has no place. */
  readonly written: ((value: JsonText) => readonly [top: string, json: JsonText]) | null;
}

/** Every field of every route. */
export const MESSAGE_SLOTS: readonly MessageSlot[] = MESSAGE_ROUTES.flatMap((route) =>
  fieldPaths(route.schema).map((field) => slotOf(route, field)),
);

function slotOf(route: MessageRoute, field: string): MessageSlot {
  const at = field.lastIndexOf(".");
  const leaf = field.slice(at + 1);
  const [top = field] = field.split(/[.[]/, 1);
  // What a tool is given may be anything; texts to embed are a list.
  const values = field === "messages[].content[].input" ? anything : valuesOf(field, leaf);
  if (at < 0) return { route, field, values, written: (value) => [field, value] };
  const around = OWN_BLOCKS[field] ?? route.around[field.slice(0, at)];
  const written =
    around === undefined
      ? null
      : (value: JsonText) => [top, around.split("@").join(`"${leaf}":${value}`)] as const;
  return { route, field, values, written };
}

/** Some names mean one thing at the top and another inside. */
function valuesOf(field: string, leaf: string): family.Family | undefined {
  if (field === "system") return blocks;
  if (field === "thinking") return object(['{"type":"enabled","budget_tokens":1024}']);
  return LEAVES[leaf];
}
