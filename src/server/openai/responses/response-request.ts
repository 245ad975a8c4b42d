import { z } from "zod";
import { anyObject, boundedList, boundedRecord, LIST_LIMITS } from "../bounded.ts";
import { deliveryFields, ignored, LOGPROBS_MAX, samplingFields, unsupported } from "../fields.ts";
import { fileSearchTool } from "../file-search.ts";
import { responsesPerigee } from "../perigee-field.ts";
import { toolName } from "../tools.ts";
import { responseInput } from "./input-items.ts";
import { RESPONSE_ID_LENGTH_MAX } from "./response-ids.ts";

const METADATA_KEY_LENGTH_MAX = 64;
const METADATA_LENGTH_MAX = 512;

/** What an answer may show beside its text. Those of tools that we have not, show nothing. */
const INCLUDABLE = [
  ...["file_search_call.results", "message.output_text.logprobs", "reasoning.encrypted_content"],
  ...["message.input_image.image_url", "computer_call_output.output.image_url"],
  ...["web_search_call.results", "web_search_call.action.sources", "code_interpreter_call.outputs"],
] as const;

const functionTool = z.strictObject({
  type: z.literal("function"),
  name: toolName,
  description: z.string().nullish(),
  parameters: anyObject.nullish(),
  strict: z.boolean().nullish(),
});

const tool = z.discriminatedUnion(
  "type",
  [functionTool, fileSearchTool],
  "must have type function or file_search",
);

const toolChoice = z.union(
  [
    z.enum(["none", "auto", "required"]),
    z.strictObject({ type: z.literal("function"), name: toolName }),
    z.strictObject({ type: z.literal("file_search") }),
  ],
  'must be "none", "auto", "required" or {"type": "function", "name": …}',
);

const textFormat = z.discriminatedUnion(
  "type",
  [
    z.strictObject({ type: z.literal("text") }),
    z.strictObject({ type: z.literal("json_object") }),
    z.strictObject({
      type: z.literal("json_schema"),
      name: z.string().min(1).max(256),
      description: z.string().nullish(),
      schema: anyObject,
      strict: z.boolean().nullish(),
    }),
  ],
  "must have type text, json_object or json_schema",
);

const word = z.string().max(64).nullish();

/** Fields of ours and of vLLM's, as in chats. */
const extraFields = {
  top_k: samplingFields.top_k,
  min_p: samplingFields.min_p,
  seed: samplingFields.seed,
  repetition_penalty: samplingFields.repetition_penalty,
  presence_penalty: samplingFields.presence_penalty,
  frequency_penalty: samplingFields.frequency_penalty,
  stop: samplingFields.stop,
  ignore_eos: samplingFields.ignore_eos,
  min_tokens: samplingFields.min_tokens,
  speculative: samplingFields.speculative,
  priority: deliveryFields.priority,
  deadlines: deliveryFields.deadlines,
  cache_salt: deliveryFields.cache_salt,
  kv_cache_retention_config: deliveryFields.kv_cache_retention_config,
  request_id: deliveryFields.request_id,
  chat_template_kwargs: anyObject.nullish(),
  perigee: responsesPerigee,
};

/** Body of POST /v1/responses: OpenAI's fields, then those of ours. */
export const ResponseRequest = z.strictObject({
  model: deliveryFields.model,
  input: responseInput.nullish(),
  instructions: z.string().nullish(),
  previous_response_id: z.string().min(1).max(RESPONSE_ID_LENGTH_MAX).nullish(),
  store: z.boolean().nullish(),
  metadata: boundedRecord(
    z.string().max(METADATA_KEY_LENGTH_MAX),
    z.string().max(METADATA_LENGTH_MAX),
    { max: LIST_LIMITS.metadata },
  ).nullish(),
  stream: deliveryFields.stream,
  stream_options: z.strictObject({ include_obfuscation: ignored }).nullish(),
  include: boundedList(z.enum(INCLUDABLE), { max: LIST_LIMITS.include }).nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  temperature: samplingFields.temperature,
  top_p: samplingFields.top_p,
  top_logprobs: z.int().min(0).max(LOGPROBS_MAX).nullish(),
  truncation: z.enum(["auto", "disabled"]).nullish(),
  text: z.strictObject({ format: textFormat.nullish(), verbosity: word }).nullish(),
  reasoning: z
    .strictObject({
      ...{ effort: word, summary: word, generate_summary: word },
      ...{ context: word, mode: word },
    })
    .nullish(),
  tools: boundedList(tool, { max: LIST_LIMITS.tools }).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_tool_calls: z.int().min(1).nullish(),
  ...extraFields,
  user: ignored,
  service_tier: ignored,
  safety_identifier: ignored,
  prompt_cache_key: ignored,
  prompt_cache_retention: ignored,
  prompt_cache_options: ignored,
  background: unsupported(false),
  conversation: unsupported(),
  context_management: unsupported(),
  moderation: unsupported(),
  prompt: unsupported(),
});
export type ResponseRequest = z.output<typeof ResponseRequest>;
export type ResponseTool = z.output<typeof tool>;
