/** The token ids of the prompt of Ollama's requests, for routers: as their own routes make them. */
import { z } from "zod";
import { isPlainObject } from "#base";
import { chatTokens } from "../openai/chat-generation.ts";
import { parseRequest } from "../openai/parse-request.ts";
import type { PromptSource } from "../openai/prompt-tokens.ts";
import { needCodec } from "../openai/prompts.ts";
import { chatMessage, OllamaChatRequest } from "./ollama-chat.ts";
import { thinkingOf } from "./ollama-fields.ts";
import { messagesOf, OllamaGenerateRequest } from "./ollama-generate.ts";

const chat = OllamaChatRequest.shape;
const generate = OllamaGenerateRequest.shape;

/** The fields that the prompt depends on; others are the worker's to check. */
const ChatPrompt = z.object({ messages: chat.messages, tools: chat.tools, think: chat.think });
const GeneratePrompt = z.object({
  prompt: generate.prompt,
  system: generate.system,
  raw: generate.raw,
  think: generate.think,
});

const CONFIG = { allowRequestChatTemplate: false, moveKnownNoise: true };

/** Throws what `POST /api/chat` or, without messages, `POST /api/generate` would answer. */
export async function ollamaPromptTokens(
  model: PromptSource,
  body: unknown,
  signal: AbortSignal,
): Promise<number[]> {
  if (isPlainObject(body) && body.messages !== undefined) {
    const { messages, tools, think } = parseRequest(ChatPrompt, body);
    const conversation = { messages: (messages ?? []).map(chatMessage), ...thinkingOf(think) };
    return chatTokens({ model, config: CONFIG }, conversation, {
      ...{ tools: tools ?? [], tokensMax: null, signal },
    });
  }
  const request = parseRequest(GeneratePrompt, body);
  const prompt = request.prompt ?? "";
  if (request.raw === true) {
    return [...(await needCodec(model.codec).encode(prompt, { tokensMax: null, signal }))];
  }
  const conversation = { messages: messagesOf(prompt, request), ...thinkingOf(request.think) };
  return chatTokens({ model, config: CONFIG }, conversation, {
    ...{ tools: [], tokensMax: null, signal },
  });
}
