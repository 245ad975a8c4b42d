/** A checked request of POST /v1/messages with its prompt, and how its answer ends. */
import type { CompletionDelta } from "#engine";
import type { Call, ServerContext } from "../context.ts";
import { finishReason } from "../openai/answer.ts";
import { type ChatGeneration, chatGeneration, chatTokens } from "../openai/chat-generation.ts";
import { toolUse } from "../openai/tools.ts";
import {
  type MarkedTokens,
  markedTokens,
  marksOf,
  NOTHING_MARKED,
  retentionOf,
} from "./cache-control.ts";
import { type Conversation, conversationOf, drawingOf } from "./conversation.ts";
import type { MessagesRequest } from "./messages-request.ts";

export interface MessageGeneration {
  readonly chat: ChatGeneration;
  readonly id: string;
  /** What `cache_control` covers of the prompt. */
  readonly marked: MarkedTokens;
  /** Most new tokens that the client wants. */
  readonly maxTokens: number;
}

export async function messageGeneration(
  context: ServerContext,
  request: MessagesRequest,
  call: Call,
): Promise<MessageGeneration> {
  const marks = marksOf(request);
  let marked = NOTHING_MARKED;
  const chatRequest = { ...conversationOf(request), ...drawingOf(request) };
  const chat = await chatGeneration(context, chatRequest, call, {
    mayExceedContext: true,
    retentionOf: async (promptTokenIds, movedNoise) => {
      if (marks.length === 0) return null;
      const tokensOf = (conversation: Conversation) =>
        promptTokens(context, conversation, call.signal);
      const endIsMoved = movedNoise.length > 0;
      marked = await markedTokens(marks, { promptTokenIds, tokensOf, endIsMoved });
      return retentionOf(marked);
    },
  });
  return { chat, id: `msg_${call.id}`, marked, maxTokens: request.max_tokens };
}

/** The tokens of a conversation, with the tools that its template shows. */
export function promptTokens(
  context: ServerContext,
  conversation: Conversation,
  signal: AbortSignal,
): Promise<number[]> {
  const { model, config, newId } = context;
  const template = model.chatTemplate ?? null;
  const { shown } = toolUse(conversation, config.toolCallParser, { template, newId });
  return chatTokens(context, conversation, { tools: shown, tokensMax: null, signal });
}

/** Why an answer ended. */
export interface MessageEnd {
  readonly stop_reason: string;
  readonly stop_sequence: string | null;
}

/** What `messageEnd` reads of a sequence that has ended. */
export interface EndedSequence extends Pick<CompletionDelta, "stopReason"> {
  readonly finishReason: CompletionDelta["finishReason"];
  readonly generatedTokens: number;
  readonly hasCalls: boolean;
}

/** Throws ENGINE_STEP_FAILED for a sequence that failed. */
export function messageEnd({ maxTokens }: MessageGeneration, end: EndedSequence): MessageEnd {
  const reason = finishReason(end.finishReason);
  const { stopReason, generatedTokens, hasCalls } = end;
  if (reason === "length") {
    const isFull = generatedTokens < maxTokens;
    const stop_reason = isFull ? "model_context_window_exceeded" : "max_tokens";
    return { stop_reason, stop_sequence: null };
  }
  if (typeof stopReason === "string") {
    return { stop_reason: "stop_sequence", stop_sequence: stopReason };
  }
  return { stop_reason: hasCalls ? "tool_use" : "end_turn", stop_sequence: null };
}
