import { z } from "zod";
import { CHAT_ROLES, type ChatMessage, needsContent, TEXT_PARTS } from "#engine";
import { anyObject, boundedList, LIST_LIMITS } from "./bounded.ts";
import {
  deliveryFields,
  ignored,
  ignoredFields,
  LOGPROBS_MAX,
  samplingFields,
  structureFields,
  unsupported,
  unsupportedFields,
} from "./fields.ts";
import { chatPerigee } from "./perigee-field.ts";
import { toolFields } from "./tools.ts";

const contentPart = z.union(
  [
    z.looseObject({ type: z.enum(TEXT_PARTS), text: z.string() }),
    z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
  ],
  "must be a text part: this model reads no images, audio or files",
);

const toolCall = z.looseObject({
  type: z.literal("function").optional(),
  function: z.looseObject({ name: z.string(), arguments: z.unknown().optional() }),
});

/** Further fields are passed to the template: they differ from model to model. */
const message = z
  .looseObject({
    role: z.enum(CHAT_ROLES),
    content: z
      .union(
        [z.string(), boundedList(contentPart, { max: LIST_LIMITS.contentParts })],
        "must be text or a list of text parts",
      )
      .nullish(),
    tool_calls: boundedList(toolCall, { max: LIST_LIMITS.toolCalls }).nullish(),
  })
  .refine(({ role, content }) => (content ?? null) !== null || !needsContent(role), {
    path: ["content"],
    error: "must be text or a list of text parts: the message says nothing",
  });
type Message = z.output<typeof message>;

/** Body of POST /v1/chat/completions: OpenAI's fields, then vLLM's. */
export const ChatRequest = z.strictObject({
  messages: boundedList(message, {
    ...{ min: 1, max: LIST_LIMITS.messages },
    wanted: `must be 1 to ${LIST_LIMITS.messages} messages`,
  }),
  ...samplingFields,
  ...structureFields,
  ...toolFields,
  ...deliveryFields,
  ...ignoredFields,
  max_completion_tokens: z.int().min(1).nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(LOGPROBS_MAX).nullish(),
  reasoning_effort: ignored,
  verbosity: ignored,
  include_reasoning: z.boolean().nullish(),
  modalities: boundedList(z.literal("text", "must be text: this model writes no audio"), {
    max: LIST_LIMITS.modalities,
  }).nullish(),
  add_generation_prompt: z.boolean().nullish(),
  continue_final_message: z.boolean().nullish(),
  add_special_tokens: unsupported(false), // the chat template adds special tokens
  chat_template: z.string().min(1).nullish(),
  chat_template_kwargs: anyObject.nullish(),
  perigee: chatPerigee,
  ...unsupportedFields,
  audio: unsupported(),
  functions: z.null("is superseded: use tools").optional(),
  function_call: z.null("is superseded: use tool_choice").optional(),
  moderation: unsupported(),
  web_search_options: unsupported(),
  documents: unsupported(),
  media_io_kwargs: unsupported(),
  mm_processor_kwargs: unsupported(),
});
export type ChatRequest = z.output<typeof ChatRequest>;

/**
 * Messages as templates expect them: arguments of tool calls are parsed from JSON, and the role
 * `developer` becomes `system`.
 */
export function templateMessages(messages: readonly Message[]): ChatMessage[] {
  return messages.map(({ role, content, tool_calls: calls, ...rest }) => ({
    ...rest,
    role: role === "developer" ? "system" : role,
    content: content ?? "",
    ...(calls === null || calls === undefined ? {} : { tool_calls: calls.map(templateCall) }),
  }));
}

function templateCall(call: z.output<typeof toolCall>): unknown {
  const { arguments: given } = call.function;
  if (typeof given !== "string") return call;
  return { ...call, function: { ...call.function, arguments: parsedArguments(given) } };
}

/** Text that is not JSON stays text: a model wrote it, and its agent must be able to continue. */
function parsedArguments(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
