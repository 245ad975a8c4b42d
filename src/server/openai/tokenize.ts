/** POST /tokenize and /detokenize, as in vLLM. */
import { z } from "zod";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "./answer.ts";
import { chatTokens } from "./chat-generation.ts";
import { ChatRequest } from "./chat-request.ts";
import { checkModelName } from "./delivery.ts";
import { isTokenIds } from "./fields.ts";
import { fieldError, parseRequest } from "./parse-request.ts";
import { needCodec } from "./prompts.ts";
import { TokenWriter } from "./token-text.ts";

const conversation = ChatRequest.shape;

/** Body of POST /tokenize. */
export const TokenizeRequest = z.strictObject({
  model: conversation.model,
  prompt: z.string().nullish(),
  messages: conversation.messages.optional(),
  tools: conversation.tools,
  add_generation_prompt: conversation.add_generation_prompt,
  continue_final_message: conversation.continue_final_message,
  chat_template: conversation.chat_template,
  chat_template_kwargs: conversation.chat_template_kwargs,
  add_special_tokens: z.boolean().nullish(),
  return_token_strs: z.boolean().nullish(),
});
export type TokenizeRequest = z.output<typeof TokenizeRequest>;

/** Body of POST /detokenize. */
export const DetokenizeRequest = z.strictObject({
  model: conversation.model,
  tokens: z.custom<number[]>(
    (value) => isTokenIds(value) || (Array.isArray(value) && value.length === 0),
    "must be a list of token ids",
  ),
});

/** Tokens spelled per turn of the event loop, before other requests run: some 5 ms. */
const SPELLED_AT_ONCE = 4_096;

export async function tokenize(context: ServerContext, body: unknown, call: Call): Promise<Answer> {
  const request = parseRequest(TokenizeRequest, body);
  checkModelName(context, request.model);
  const tokens = await tokensOf(context, request, call);
  const isSpelled = request.return_token_strs === true;
  return {
    kind: "json",
    value: {
      count: tokens.length,
      max_model_len: context.model.info.contextTokensMax,
      tokens,
      token_strs: isSpelled ? await spellings(context, tokens, call) : null,
    },
  };
}

/** Each token's text. Rejects with the signal's reason if the client disconnects meanwhile. */
async function spellings(
  { model }: ServerContext,
  tokens: readonly number[],
  { signal }: Call,
): Promise<string[]> {
  const writer = new TokenWriter(model.codec, false);
  const texts: string[] = [];
  for (const id of tokens) {
    texts.push(writer.write(id).text);
    if (texts.length % SPELLED_AT_ONCE > 0) continue;
    await new Promise((resolve) => setImmediate(resolve));
    signal.throwIfAborted();
  }
  return texts;
}

async function tokensOf(
  context: ServerContext,
  request: TokenizeRequest,
  { signal }: Call,
): Promise<number[]> {
  const { prompt, messages } = request;
  const hasPrompt = prompt !== null && prompt !== undefined;
  if (hasPrompt === (messages !== undefined)) {
    throw fieldError("prompt", "one of prompt and messages must be given, and not both");
  }
  if (messages !== undefined) {
    const tools = request.tools ?? [];
    return chatTokens(context, { ...request, messages }, { tools, tokensMax: null, signal });
  }
  const addSpecialTokens = request.add_special_tokens ?? true;
  return needCodec(context.model.codec).encode(prompt ?? "", { addSpecialTokens, signal });
}

export async function detokenize(
  context: ServerContext,
  body: unknown,
  { signal }: Call,
): Promise<Answer> {
  const request = parseRequest(DetokenizeRequest, body);
  checkModelName(context, request.model);
  const { vocabularySize } = context.model.info;
  const unknown = request.tokens.find((id) => id >= vocabularySize);
  if (unknown !== undefined) {
    throw fieldError("tokens", `must be below ${vocabularySize}, current value is ${unknown}`);
  }
  const options = { skipSpecialTokens: false, signal };
  const prompt = await needCodec(context.model.codec).decodeLong(request.tokens, options);
  return { kind: "json", value: { prompt } };
}
