/** `truncation: "auto"`: the beginning of a conversation gives way where all of it does not fit. */
import { EngineError } from "#base";
import type { Call, ServerContext } from "../../context.ts";
import { chatTokens } from "../chat-generation.ts";
import type { ChatRequest } from "../chat-request.ts";
import { toolUse } from "../tools.ts";

type Messages = ChatRequest["messages"];

/**
 * The chat without as many turns at its beginning as must go for prompt and answer to fit the
 * context. System messages at its start stay, and so does the last turn.
 */
export async function fittingChat(
  context: ServerContext,
  chat: ChatRequest,
  call: Call,
): Promise<ChatRequest> {
  const heads = turnsOf(chat.messages);
  const without = (turns: number): ChatRequest => ({
    ...chat,
    messages: dropped(chat.messages, heads, turns),
  });
  const fits = (turns: number) => fitsContext(context, without(turns), call.signal);
  if (heads.length < 2 || (await fits(0))) return chat;
  // The fewest turns that must go; the last one stays in any case.
  let low = 1;
  let high = heads.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (await fits(middle)) high = middle;
    else low = middle + 1;
  }
  return without(low);
}

/** Where turns begin: at each message of a user. */
function turnsOf(messages: Messages): number[] {
  return messages.flatMap(({ role }, place) => (role === "user" ? [place] : []));
}

function dropped(messages: Messages, heads: readonly number[], turns: number): Messages {
  if (turns === 0) return messages;
  const start = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  return [...messages.slice(0, Math.max(0, start)), ...messages.slice(heads[turns] ?? 0)];
}

async function fitsContext(
  context: ServerContext,
  chat: ChatRequest,
  signal: AbortSignal,
): Promise<boolean> {
  const { contextTokensMax } = context.model.info;
  const { model, config, newId } = context;
  const template = model.chatTemplate ?? null;
  const { shown } = toolUse(chat, config.toolCallParser, { template, newId });
  try {
    const tokensMax = contextTokensMax;
    const tokens = await chatTokens(context, chat, { tools: shown, tokensMax, signal });
    return tokens.length + (chat.max_completion_tokens ?? 1) <= contextTokensMax;
  } catch (error) {
    if (error instanceof EngineError && error.code === "PROMPT_TOO_LONG") return false;
    throw error;
  }
}
