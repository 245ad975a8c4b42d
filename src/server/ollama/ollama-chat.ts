/** POST /api/chat. */
import { z } from "zod";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "../openai/answer.ts";
import { anyObject, boundedList, LIST_LIMITS } from "../openai/bounded.ts";
import { chatGeneration } from "../openai/chat-generation.ts";
import type { ChatRequest } from "../openai/chat-request.ts";
import { parseRequest } from "../openai/parse-request.ts";
import { functionTool } from "../openai/tools.ts";
import { loadedAnswer, type OllamaPiece, ollamaAnswer } from "./ollama-answer.ts";
import { drawingOf, generatingFields, servedName } from "./ollama-fields.ts";

const toolCall = z.looseObject({
  function: z.looseObject({ name: z.string(), arguments: anyObject.nullish() }),
});

export const noImages = boundedList(z.never("must be left out: this model reads no images"), {
  max: 0,
  wanted: "must be left out: this model reads no images",
}).nullish();

const message = z.looseObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string().nullish(),
  thinking: z.string().nullish(),
  images: noImages,
  tool_calls: boundedList(toolCall, { max: LIST_LIMITS.toolCalls }).nullish(),
  tool_name: z.string().nullish(),
  tool_call_id: z.string().nullish(),
});
type Message = z.output<typeof message>;

/** Body of POST /api/chat. */
export const OllamaChatRequest = z.strictObject({
  messages: boundedList(message, { max: LIST_LIMITS.messages }).nullish(),
  tools: boundedList(functionTool, { max: LIST_LIMITS.tools }).nullish(),
  ...generatingFields,
});
export type OllamaChatRequest = z.output<typeof OllamaChatRequest>;

export async function ollamaChat(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const arrivedMs = performance.now();
  const request = parseRequest(OllamaChatRequest, body);
  const modelName = servedName(context, request.model);
  const messages = request.messages ?? [];
  const stream = request.stream !== false;
  if (messages.length === 0) return loadedAnswer(modelName, fieldsOf(NOTHING), stream);
  const { contextTokensMax } = context.model.info;
  const chatRequest: ChatRequest = {
    messages: messages.map(chatMessage),
    tools: request.tools,
    ...drawingOf(request, contextTokensMax),
  };
  const chat = await chatGeneration(context, chatRequest, call, { mayExceedContext: true });
  const fields = fieldsOf;
  return ollamaAnswer(context, { chat, modelName, stream, arrivedMs, fields });
}

const NOTHING: OllamaPiece = { text: "", thinking: "", calls: [] };

function fieldsOf({ text, thinking, calls }: OllamaPiece): object {
  return {
    message: {
      role: "assistant",
      content: text,
      ...(thinking === "" ? {} : { thinking }),
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
    },
  };
}

/** As a message of a chat. */
export function chatMessage({
  role,
  content,
  thinking,
  tool_calls: calls,
  tool_name: name,
  tool_call_id: callId,
}: Message): ChatRequest["messages"][number] {
  return {
    role,
    content: content ?? "",
    ...(thinking != null && thinking !== "" && { reasoning_content: thinking }),
    ...(name != null && { name }),
    ...(callId != null && { tool_call_id: callId }),
    ...(calls != null && calls.length > 0 && { tool_calls: calls.map(chatCall) }),
  };
}

function chatCall({ function: called, ...rest }: z.output<typeof toolCall>) {
  const { name, arguments: given } = called;
  const own = { name, arguments: given ?? {} };
  return { ...rest, type: "function" as const, function: own };
}
