/** A conversation's items as messages of a chat. */
import type { ChatRequest } from "../chat-request.ts";
import { type ConversationItem, textOf } from "./input-items.ts";

type Message = ChatRequest["messages"][number];
type ReasoningItem = Extract<ConversationItem, { readonly type: "reasoning" }>;

/**
 * Messages for the chat template. What a model said, thought and called in one turn becomes one
 * message; a call's output names its function.
 */
export function messagesOf(
  instructions: string | null,
  items: readonly ConversationItem[],
): Message[] {
  const gathering = new Gathering();
  if (instructions !== null) gathering.messages.push({ role: "system", content: instructions });
  for (const item of items) gathering.add(item);
  return gathering.messages;
}

class Gathering {
  readonly messages: Message[] = [];
  readonly #names = new Map<string, string>();
  #reasoning: string[] = [];
  /** The model's message that calls behind it belong to. */
  #turn: Message | null = null;

  add(item: ConversationItem): void {
    switch (item.type) {
      case "message":
        this.#say(item.role, textOf(item.content));
        break;
      case "reasoning":
        this.#turn = null;
        this.#reasoning.push(thoughtOf(item));
        break;
      case "function_call":
        this.#call(item);
        break;
      case "function_call_output":
        this.#answer(item.call_id, textOf(item.output));
        break;
      case "file_search_call":
        break; // the message behind it says what was found
    }
  }

  #say(role: Message["role"], content: string): void {
    const isModel = role === "assistant";
    if (!isModel) this.#reasoning = [];
    const message: Message = { role, content, ...(isModel ? this.#thought() : {}) };
    this.messages.push(message);
    this.#turn = isModel ? message : null;
  }

  #call({ call_id: id, name, arguments: text }: CallItem): void {
    this.#names.set(id, name);
    const call = { id, type: "function" as const, function: { name, arguments: text } };
    if (this.#turn === null) this.#say("assistant", "");
    const turn = this.#turn;
    if (turn?.tool_calls == null) Object.assign(turn ?? {}, { tool_calls: [call] });
    else turn.tool_calls.push(call);
  }

  #answer(id: string, content: string): void {
    this.#turn = null;
    const name = this.#names.get(id);
    const more = name === undefined ? {} : { name };
    this.messages.push({ role: "tool", tool_call_id: id, content, ...more });
  }

  /** As Qwen's and DeepSeek's templates name it. */
  #thought(): { readonly reasoning_content?: string } {
    const text = this.#reasoning.join("\n");
    this.#reasoning = [];
    return text === "" ? {} : { reasoning_content: text };
  }
}

type CallItem = Extract<ConversationItem, { readonly type: "function_call" }>;

function thoughtOf({ content, summary }: ReasoningItem): string {
  const parts = (content ?? []).length > 0 ? content : summary;
  return (parts ?? []).map(({ text }) => text).join("\n");
}
