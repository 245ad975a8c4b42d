/** Bodies of POST /v1/messages and /v1/messages/count_tokens. */
import { z } from "zod";
import { anyObject, boundedList, LIST_LIMITS } from "../openai/bounded.ts";
import { deliveryFields, ignored, unsupported } from "../openai/fields.ts";

const cacheControl = z
  .strictObject({ type: z.literal("ephemeral"), ttl: z.enum(["5m", "1h"]).nullish() })
  .nullish();
export type CacheControl = z.output<typeof cacheControl>;

const textBlock = z.looseObject({
  type: z.literal("text"),
  text: z.string(),
  cache_control: cacheControl,
});
export type TextBlock = z.output<typeof textBlock>;

/** Text alone means one block of it: what follows reads blocks. */
function textOrBlocks<Block extends z.ZodType>(block: Block) {
  return z.preprocess(
    (value) => (typeof value === "string" ? [{ type: "text", text: value }] : value),
    boundedList(block, { max: LIST_LIMITS.contentParts }),
  );
}

const READS_TEXT =
  "must be text, tool_use, tool_result, thinking or redacted_thinking: this model reads no " +
  "images, documents or results of server tools";

const resultBlock = z.discriminatedUnion(
  "type",
  [textBlock],
  "must be text: this model reads no images or documents",
);

const contentBlock = z.discriminatedUnion(
  "type",
  [
    textBlock,
    z.looseObject({
      type: z.literal("tool_use"),
      id: z.string(),
      name: z.string(),
      input: z.unknown().optional(),
      cache_control: cacheControl,
    }),
    z.looseObject({
      type: z.literal("tool_result"),
      tool_use_id: z.string(),
      content: textOrBlocks(resultBlock).nullish(),
      is_error: z.boolean().nullish(),
      cache_control: cacheControl,
    }),
    z.looseObject({ type: z.literal("thinking"), thinking: z.string() }),
    z.looseObject({ type: z.literal("redacted_thinking") }),
  ],
  READS_TEXT,
);
export type ContentBlock = z.output<typeof contentBlock>;

const message = z.strictObject({
  role: z.enum(["user", "assistant"], "must be user or assistant; use the field system for others"),
  content: textOrBlocks(contentBlock),
});
export type Message = z.output<typeof message>;

/** Anthropic's longest. */
const NAME_LENGTH_MAX = 128;
const toolName = z
  .string()
  .regex(/^[\w-]{1,128}$/, `must be 1 to ${NAME_LENGTH_MAX} letters, digits, _ or -`);

const tool = z.looseObject({
  type: z
    .literal(
      "custom",
      "must be custom or left out: this server runs no tools of its own; describe the tool by " +
        "name, description and input_schema, and run it yourself",
    )
    .nullish(),
  name: toolName,
  description: z.string().nullish(),
  input_schema: anyObject,
  cache_control: cacheControl,
});
export type Tool = z.output<typeof tool>;

const oneAtATime = { disable_parallel_tool_use: z.boolean().nullish() };
const toolChoice = z.discriminatedUnion(
  "type",
  [
    z.strictObject({ type: z.literal("auto"), ...oneAtATime }),
    z.strictObject({ type: z.literal("any"), ...oneAtATime }),
    z.strictObject({ type: z.literal("tool"), name: toolName, ...oneAtATime }),
    z.strictObject({ type: z.literal("none") }),
  ],
  "must have type auto, any, tool or none",
);

const thinking = z.discriminatedUnion(
  "type",
  [
    z.looseObject({ type: z.literal("enabled"), budget_tokens: z.int().positive().nullish() }),
    z.looseObject({ type: z.literal("adaptive") }),
    z.looseObject({ type: z.literal("disabled") }),
  ],
  "must have type enabled, adaptive or disabled",
);

const outputFormat = z.looseObject({
  type: z.literal("json_schema"),
  schema: anyObject,
});

/** What determines the prompt. */
const promptFields = {
  model: deliveryFields.model,
  system: textOrBlocks(textBlock).nullish(),
  messages: boundedList(message, {
    ...{ min: 1, max: LIST_LIMITS.messages },
    wanted: `must be 1 to ${LIST_LIMITS.messages} messages`,
  }),
  tools: boundedList(tool, { max: LIST_LIMITS.tools }).nullish(),
  tool_choice: toolChoice.nullish(),
  thinking: thinking.nullish(),
  output_config: z.looseObject({ effort: ignored, format: outputFormat.nullish() }).nullish(),
  cache_control: cacheControl,
  /** Of ours: requests with another salt share nothing. */
  cache_salt: deliveryFields.cache_salt,
  context_management: ignored,
  betas: ignored,
  speed: ignored,
  mcp_servers: boundedList(z.never("must be empty: this server calls no MCP servers"), {
    max: 0,
    wanted: "must be empty: this server calls no MCP servers; give their tools as tools",
  }).nullish(),
};

/** Body of POST /v1/messages/count_tokens. */
export const CountTokensRequest = z.strictObject(promptFields);
export type CountTokensRequest = z.output<typeof CountTokensRequest>;

/** Body of POST /v1/messages: Anthropic's fields, and what routing needs. */
export const MessagesRequest = z.strictObject({
  ...promptFields,
  max_tokens: z.int().min(1),
  stop_sequences: boundedList(z.string().min(1), { max: LIST_LIMITS.stop }).nullish(),
  stream: deliveryFields.stream,
  temperature: z.number().min(0).max(1).nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().min(0).nullish(),
  metadata: z.looseObject({ user_id: z.string().nullish() }).nullish(),
  service_tier: ignored,
  inference_geo: ignored,
  priority: deliveryFields.priority,
  request_id: deliveryFields.request_id,
  container: unsupported(),
});
export type MessagesRequest = z.output<typeof MessagesRequest>;

/** What a prompt is made of. */
export type PromptRequest = Pick<
  MessagesRequest,
  "system" | "messages" | "tools" | "tool_choice" | "thinking" | "cache_salt"
> &
  Partial<Pick<MessagesRequest, "output_config">>;
