/** POST /v1/messages, without streaming. */
import type { GenerateResult } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import type { Answer } from "../openai/answer.ts";
import { checkModelName } from "../openai/delivery.ts";
import { parseRequest } from "../openai/parse-request.ts";
import { AnswerBlocks, wholeBlock } from "./answer-blocks.ts";
import { messageEvents } from "./message-events.ts";
import { type MessageGeneration, messageEnd, messageGeneration } from "./message-generation.ts";
import { messageUsage } from "./message-usage.ts";
import { MessagesRequest } from "./messages-request.ts";

export async function messages(context: ServerContext, body: unknown, call: Call): Promise<Answer> {
  const request = parseRequest(MessagesRequest, body);
  checkModelName(context, request.model);
  const generation = await messageGeneration(context, request, call);
  if (request.stream === true) {
    return { kind: "events", events: messageEvents(context.model, generation) };
  }
  const { prompt, options } = generation.chat;
  const [result] = await context.model.generate([prompt], options);
  return { kind: "json", value: result === undefined ? null : message(generation, result) };
}

function message(generation: MessageGeneration, result: GenerateResult): unknown {
  const { chat, id, marked } = generation;
  const [completion] = result.completions;
  if (completion === undefined) return null;
  const { tokenIds, drafts, finishReason, stopReason } = completion;
  chat.usage.add(0, result, tokenIds.length, drafts);
  const answer = new AnswerBlocks(chat);
  answer.push(completion.text ?? "", tokenIds, true);
  const end = messageEnd(generation, {
    ...{ finishReason, stopReason },
    generatedTokens: tokenIds.length,
    hasCalls: answer.hasCalls,
  });
  return {
    ...messageHead(id, chat.modelName),
    content: answer.blocks.map(wholeBlock),
    ...end,
    usage: messageUsage(chat.usage, marked),
  };
}

/** The fields that do not depend on the output. */
export function messageHead(id: string, model: string): object {
  return { id, type: "message", role: "assistant", model };
}
