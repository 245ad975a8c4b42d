/** POST /v1/messages/count_tokens: the tokens that a prompt would have. */
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "../openai/answer.ts";
import { checkModelName } from "../openai/delivery.ts";
import { parseRequest } from "../openai/parse-request.ts";
import { conversationOf } from "./conversation.ts";
import { promptTokens } from "./message-generation.ts";
import { CountTokensRequest } from "./messages-request.ts";

export async function countTokens(
  context: ServerContext,
  body: unknown,
  { signal }: Call,
): Promise<Answer> {
  const request = parseRequest(CountTokensRequest, body);
  checkModelName(context, request.model);
  const tokens = await promptTokens(context, conversationOf(request), signal);
  return { kind: "json", value: { input_tokens: tokens.length } };
}
