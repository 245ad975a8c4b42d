/** Anthropic's messages as a chat: the same conversation in the fields of chat completions. */
import type { ChatRequest } from "../openai/chat-request.ts";
import { fieldError } from "../openai/parse-request.ts";
import type {
  ContentBlock,
  Message,
  MessagesRequest,
  PromptRequest,
  Tool,
} from "./messages-request.ts";

type ChatMessage = ChatRequest["messages"][number];

/** The fields of a chat that its prompt is made of. */
export type Conversation = Pick<
  ChatRequest,
  | "messages"
  | "tools"
  | "tool_choice"
  | "parallel_tool_calls"
  | "response_format"
  | "chat_template_kwargs"
  | "add_generation_prompt"
  | "continue_final_message"
  | "cache_salt"
>;

/** One that ends with the assistant's words is continued there. Throws INVALID_ARGUMENT. */
export function conversationOf(request: PromptRequest): Conversation {
  const { messages, system, tools, output_config: output } = request;
  const instructions = (system ?? []).map(({ text }) => text);
  const continues = messages.at(-1)?.role === "assistant";
  const toolNames = new Map<string, string>();
  return {
    messages: [
      ...(instructions.length > 0
        ? [{ role: "system" as const, content: textsOf(instructions) }]
        : []),
      ...messages.flatMap((message, place) => chatMessages(message, place, toolNames)),
    ],
    tools: tools?.map(chatTool),
    ...toolChoiceOf(request.tool_choice),
    chat_template_kwargs: { enable_thinking: thinks(request) },
    ...(output?.format != null && {
      response_format: {
        type: "json_schema" as const,
        json_schema: { name: "output", schema: output.format.schema },
      },
    }),
    ...(continues && { add_generation_prompt: false, continue_final_message: true }),
    cache_salt: request.cache_salt,
  };
}

/** Thinking is asked for, as in Anthropic's API; templates of models that always do ignore it. */
export function thinks({ thinking }: Pick<PromptRequest, "thinking">): boolean {
  return thinking != null && thinking.type !== "disabled";
}

/** The fields of a chat that decide how its answer is drawn. */
export function drawingOf(request: MessagesRequest) {
  const { max_tokens, stop_sequences, temperature, top_p, top_k, stream, model } = request;
  const { priority, request_id } = request;
  return {
    model,
    max_tokens,
    stop: stop_sequences,
    temperature,
    top_p,
    top_k,
    stream,
    priority,
    request_id,
  };
}

/** One text as it is, so that its prompt is that of the same chat; several as parts. */
function textsOf(texts: readonly string[]): NonNullable<ChatMessage["content"]> {
  const [only = ""] = texts;
  return texts.length <= 1 ? only : texts.map((text) => ({ type: "text" as const, text }));
}

function chatTool({ name, description, input_schema: parameters }: Tool) {
  return { type: "function" as const, function: { name, description, parameters } };
}

function toolChoiceOf(
  choice: PromptRequest["tool_choice"],
): Pick<Conversation, "tool_choice" | "parallel_tool_calls"> {
  if (choice == null) return {};
  if (choice.type === "none") return { tool_choice: "none" };
  const onlyOne = choice.disable_parallel_tool_use === true ? { parallel_tool_calls: false } : {};
  switch (choice.type) {
    case "auto":
      return { tool_choice: "auto", ...onlyOne };
    case "any":
      return { tool_choice: "required", ...onlyOne };
    case "tool":
      return { tool_choice: { type: "function", function: { name: choice.name } }, ...onlyOne };
  }
}

/** Results of tools are messages of their own, in the order in which they stand. */
function chatMessages(
  { role, content }: Message,
  place: number,
  toolNames: Map<string, string>,
): ChatMessage[] {
  return role === "assistant"
    ? [assistantMessage(content, place, toolNames)]
    : userMessages(content, place, toolNames);
}

function assistantMessage(
  content: readonly ContentBlock[],
  place: number,
  toolNames: Map<string, string>,
): ChatMessage {
  const texts = content.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const thoughts = content.flatMap((block) => (block.type === "thinking" ? [block.thinking] : []));
  const calls = content.flatMap((block) => {
    if (block.type === "tool_result") throw misplaced(place, "tool_result", "user");
    if (block.type !== "tool_use") return [];
    toolNames.set(block.id, block.name);
    const called = { name: block.name, arguments: block.input ?? {} };
    return [{ type: "function" as const, id: block.id, function: called }];
  });
  return {
    role: "assistant",
    content: textsOf(texts),
    ...(thoughts.length > 0 ? { reasoning_content: thoughts.join("\n") } : {}),
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

function userMessages(
  content: readonly ContentBlock[],
  place: number,
  toolNames: ReadonlyMap<string, string>,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let texts: string[] = [];
  const endText = () => {
    if (texts.length > 0) messages.push({ role: "user", content: textsOf(texts) });
    texts = [];
  };
  for (const block of content) {
    if (block.type === "text") texts.push(block.text);
    else if (block.type === "tool_use") throw misplaced(place, "tool_use", "assistant");
    if (block.type !== "tool_result") continue;
    endText();
    const name = toolNames.get(block.tool_use_id);
    messages.push({
      role: "tool",
      tool_call_id: block.tool_use_id,
      ...(name === undefined ? {} : { name }),
      content: textsOf((block.content ?? []).map(({ text }) => text)),
    });
  }
  endText();
  return messages.length === 0 ? [{ role: "user", content: "" }] : messages;
}

function misplaced(place: number, block: string, role: string): Error {
  return fieldError(`messages[${place}].content`, `must have no ${block}, which is of the ${role}`);
}
