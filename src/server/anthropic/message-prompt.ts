/** The token ids of a message request's prompt, for routers: as its own route makes them. */
import { z } from "zod";
import { chatTokens } from "../openai/chat-generation.ts";
import { parseRequest } from "../openai/parse-request.ts";
import type { PromptSource } from "../openai/prompt-tokens.ts";
import { conversationOf } from "./conversation.ts";
import { MessagesRequest } from "./messages-request.ts";

const { shape } = MessagesRequest;

/** The fields that the prompt depends on; others are the worker's to check. */
const PromptFields = z.object({
  system: shape.system,
  messages: shape.messages,
  tools: shape.tools,
  tool_choice: shape.tool_choice,
  thinking: shape.thinking,
  cache_salt: shape.cache_salt,
});

/** Throws what `POST /v1/messages` would answer. */
export async function messagesPromptTokens(
  model: PromptSource,
  body: unknown,
  signal: AbortSignal,
): Promise<number[]> {
  const conversation = conversationOf(parseRequest(PromptFields, body));
  const tools = conversation.tool_choice === "none" ? [] : (conversation.tools ?? []);
  const config = { allowRequestChatTemplate: false, moveKnownNoise: true };
  return chatTokens({ model, config }, conversation, { tools, tokensMax: null, signal });
}
