/** POST /api/generate: a chat of one message, or the prompt as it is. */
import { z } from "zod";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "../openai/answer.ts";
import { chatGeneration } from "../openai/chat-generation.ts";
import type { ChatRequest } from "../openai/chat-request.ts";
import { unsupported } from "../openai/fields.ts";
import { parseRequest } from "../openai/parse-request.ts";
import { needCodec } from "../openai/prompts.ts";
import { loadedAnswer, type OllamaPiece, ollamaAnswer } from "./ollama-answer.ts";
import { noImages } from "./ollama-chat.ts";
import { drawingOf, generatingFields, servedName } from "./ollama-fields.ts";

const CHAT_INSTEAD = "is not supported in this version: send a conversation to /api/chat";
const OWN_TEMPLATE =
  "is not supported in this version: start the server with chatTemplate (--chat-template FILE)";

/** Body of POST /api/generate. */
export const OllamaGenerateRequest = z.strictObject({
  prompt: z.string().nullish(),
  system: z.string().nullish(),
  raw: z.boolean().nullish(),
  images: noImages,
  suffix: unsupported(""),
  template: z.literal("", OWN_TEMPLATE).nullish(),
  context: z.null(CHAT_INSTEAD).optional(),
  ...generatingFields,
});
export type OllamaGenerateRequest = z.output<typeof OllamaGenerateRequest>;

export async function ollamaGenerate(
  context: ServerContext,
  body: unknown,
  call: Call,
): Promise<Answer> {
  const arrivedMs = performance.now();
  const request = parseRequest(OllamaGenerateRequest, body);
  const modelName = servedName(context, request.model);
  const stream = request.stream !== false;
  const { prompt } = request;
  if (prompt == null || prompt === "") return loadedAnswer(modelName, { response: "" }, stream);
  const drawing = drawingOf(request, context.model.info.contextTokensMax);
  const chatRequest: ChatRequest = {
    messages: messagesOf(prompt, request),
    ...drawing,
    ...(request.raw === true && (await asIs(context, prompt, call))),
  };
  const chat = await chatGeneration(context, chatRequest, call, { mayExceedContext: true });
  return ollamaAnswer(context, { chat, modelName, stream, arrivedMs, fields });
}

/** The prompt as a conversation. */
export function messagesOf(
  prompt: string,
  { system, raw }: Pick<OllamaGenerateRequest, "system" | "raw">,
): ChatRequest["messages"] {
  const hasSystem = system != null && system !== "" && raw !== true;
  return [
    ...(hasSystem ? [{ role: "system" as const, content: system }] : []),
    { role: "user", content: prompt },
  ];
}

function fields({ text, thinking }: OllamaPiece): object {
  return { response: text, ...(thinking === "" ? {} : { thinking }) };
}

/** The prompt without a template around it, as ids. */
async function asIs(
  { model }: ServerContext,
  prompt: string,
  { signal }: Call,
): Promise<Pick<ChatRequest, "perigee">> {
  const { contextTokensMax: tokensMax } = model.info;
  const prompt_token_ids = await needCodec(model.codec).encode(prompt, { tokensMax, signal });
  return { perigee: { prompt_token_ids } };
}
