/** The token ids of a request's prompts, for routers: as the request's own route makes them. */
import { z } from "zod";
import type { ServedModel } from "#engine";
import { chatTokens } from "./chat-generation.ts";
import { ChatRequest } from "./chat-request.ts";
import { CompletionsRequest } from "./completions-request.ts";
import { parseRequest } from "./parse-request.ts";
import { encodePrompts } from "./prompts.ts";
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
  const config = { allowRequestChatTemplate: false };
  return chatTokens({ model, config }, request, { tools, tokensMax: null, signal });
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
