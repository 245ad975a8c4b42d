/** The token ids of a request's prompts, for routers: as the request's own route makes them. */
import { z } from "zod";
import { isPlainObject } from "#base";
import type { ServedModel } from "#engine";
import { chatTokens } from "./chat-generation.ts";
import { ChatRequest } from "./chat-request.ts";
import { CompletionsRequest } from "./completions-request.ts";
import { parseRequest } from "./parse-request.ts";
import { encodePrompts } from "./prompts.ts";
import { chatRequestOf } from "./responses/chat-form.ts";
import { messagesOf } from "./responses/conversation.ts";
import type { ConversationItem, InputItem } from "./responses/input-items.ts";
import { ResponseRequest } from "./responses/response-request.ts";
import { functionsOf } from "./tools.ts";

/** The text side of a model. */
export type PromptSource = Pick<ServedModel, "codec" | "chatPrompt">;

const chat = ChatRequest.shape;

/** The fields of a chat that its prompt depends on; others are the worker's to check. */
const ChatPromptRequest = z.object({
  messages: chat.messages,
  tools: chat.tools,
  tool_choice: chat.tool_choice,
  chat_template: chat.chat_template,
  chat_template_kwargs: chat.chat_template_kwargs,
  reasoning_effort: chat.reasoning_effort,
  add_generation_prompt: chat.add_generation_prompt,
  continue_final_message: chat.continue_final_message,
  cache_salt: chat.cache_salt,
});

const { shape } = CompletionsRequest;

const CompletionPromptRequest = z.object({
  prompt: shape.prompt,
  add_special_tokens: shape.add_special_tokens,
  cache_salt: shape.cache_salt,
});

/** Of a chat. Throws what `POST /v1/chat/completions` would answer. */
export async function chatPromptTokens(
  model: PromptSource,
  body: unknown,
  signal: AbortSignal,
): Promise<number[]> {
  const request = parseRequest(ChatPromptRequest, body);
  const tools = request.tool_choice === "none" ? [] : functionsOf(request.tools ?? []);
  const config = { allowRequestChatTemplate: false, moveKnownNoise: true };
  return chatTokens({ model, config }, request, { tools, tokensMax: null, signal });
}

const response = ResponseRequest.shape;

/** The fields of a request for a response that its prompt depends on. */
const ResponsePromptRequest = z.object({
  input: response.input,
  instructions: response.instructions,
  tools: response.tools,
  tool_choice: response.tool_choice,
  reasoning: response.reasoning,
  chat_template_kwargs: response.chat_template_kwargs,
  cache_salt: response.cache_salt,
});

/** Retention does not change a prompt. */
const UNKEPT = { responsesWarmMs: 0, responsesStoredMax: 0 };

/**
 * Of a response that begins a conversation; null: the prompt is made of items that a worker keeps.
 * Throws what `POST /v1/responses` would answer.
 */
export async function responsePromptTokens(
  model: PromptSource,
  body: unknown,
  signal: AbortSignal,
): Promise<number[] | null> {
  if (isPlainObject(body) && (body.previous_response_id ?? null) !== null) return null;
  const request = parseRequest(ResponsePromptRequest, body);
  const items = request.input ?? [];
  if (!items.every(isWhole)) return null;
  const messages = messagesOf(request.instructions ?? null, items);
  const chat = chatRequestOf(request, { messages, cacheSalt: null, config: UNKEPT });
  const tools = chat.tool_choice === "none" ? [] : functionsOf(chat.tools ?? []);
  const config = { allowRequestChatTemplate: false, moveKnownNoise: true };
  return chatTokens({ model, config }, chat, { tools, tokensMax: null, signal });
}

function isWhole(item: InputItem): item is ConversationItem {
  return item.type !== "item_reference";
}

/** Of completions, by prompt. Throws what `POST /v1/completions` would answer. */
export async function completionPromptTokens(
  { codec }: PromptSource,
  body: unknown,
  signal: AbortSignal,
): Promise<number[][]> {
  const request = parseRequest(CompletionPromptRequest, body);
  const options = {
    addSpecialTokens: request.add_special_tokens ?? true,
    cacheSalt: request.cache_salt ?? null,
    signal,
  };
  return (await encodePrompts(codec, request.prompt, options)).map(({ tokenIds }) => tokenIds);
}
