/**
 * Tools for chat templates without tool support: definitions become a block of the system message;
 * calls and results become turns of plain text, in the form that Hermes models use and that
 * `toolCallParser` auto parses.
 */
import { EngineError } from "#base";
import { withCallArguments } from "./call-arguments.ts";
import type { ChatTemplate, RenderOptions } from "./chat-template.ts";
import type { TemplateMessage } from "./template-message.ts";
import { isObject } from "./tokenizer-files.ts";

/** A rendered conversation. */
export interface RenderedChat {
  readonly text: string;
  /** Tools, calls or results are included as plain text: the template would have omitted them. */
  readonly toolsAsText: boolean;
}

/** What a template does with tool data: renders it, omits it, or throws. */
type Reaction = "shows" | "hides" | "refuses";

interface ToolSupport {
  readonly definitions: Reaction;
  readonly history: Reaction;
}

/** Words that occur in no template. */
const MARK = { definition: "perigee_probe_tool", call: "perigee_probe_call", result: "71829364" };

const probeTool = {
  type: "function",
  function: {
    name: MARK.definition,
    description: "A probe.",
    parameters: { type: "object", properties: {} },
  },
};

/** Nine letters and digits: some templates accept no other ids. */
const probeCall = {
  id: "perigee00",
  type: "function",
  function: { name: MARK.call, arguments: {} },
};

const probeHistory: readonly TemplateMessage[] = [
  { role: "user", content: "Hello" },
  { role: "assistant", content: "", tool_calls: [probeCall] },
  { role: "tool", content: MARK.result, tool_call_id: probeCall.id, name: MARK.call },
];

const known = new WeakMap<ChatTemplate, ToolSupport>();

/** The prompt of a conversation with or without tools. Throws as `ChatTemplate.render` does. */
export function renderWithTools(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  options: RenderOptions,
): RenderedChat {
  const { tools = [] } = options;
  const hasHistory = messages.some(isToolTurn);
  if (tools.length === 0 && !hasHistory) return plain(template, messages, options);
  const support = supportOf(template);
  const reactions = [
    ...(tools.length > 0 ? [support.definitions] : []),
    ...(hasHistory ? [support.history] : []),
  ];
  if (!reactions.includes("hides")) {
    try {
      return plain(template, messages, options);
    } catch (error) {
      // A template that rejected the probe may accept this conversation, and one that accepted it
      // may stumble over a schema (Hermes 3's does over an argument without a description).
      return asTextAfter(error, template, messages, options);
    }
  }
  return asText(template, messages, options);
}

/** As text; throws `error` where the template rejects that, too: the tools are not at fault. */
function asTextAfter(
  error: unknown,
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  options: RenderOptions,
): RenderedChat {
  try {
    return asText(template, messages, options);
  } catch {
    throw error;
  }
}

function plain(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  options: RenderOptions,
): RenderedChat {
  return { text: template.render(messages, options), toolsAsText: false };
}

function isToolTurn({ role, tool_calls: calls }: TemplateMessage): boolean {
  return role === "tool" || role === "function" || (Array.isArray(calls) && calls.length > 0);
}

function supportOf(template: ChatTemplate): ToolSupport {
  const found = known.get(template) ?? {
    definitions: reactionTo(template, probeHistory.slice(0, 1), [MARK.definition]),
    history: reactionTo(template, probeHistory, [MARK.call, MARK.result]),
  };
  known.set(template, found);
  return found;
}

function reactionTo(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  marks: readonly string[],
): Reaction {
  try {
    const text = template.render(messages, { tools: [probeTool] });
    return marks.every((mark) => text.includes(mark)) ? "shows" : "hides";
  } catch {
    return "refuses"; // a common case: templates check the order of roles
  }
}

/** Puts the definitions in a system message, or in the first turn if the template has none. */
function asText(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  { tools = [], ...options }: RenderOptions,
): RenderedChat {
  const turns = textTurns(messages.map(withCallArguments));
  const render = (list: readonly TemplateMessage[]): RenderedChat => ({
    text: template.render(list, options),
    toolsAsText: true,
  });
  if (tools.length === 0) return render(turns);
  const block = definitionsBlock(tools);
  try {
    const rendered = render(withSystemBlock(turns, block));
    if (rendered.text.includes(block)) return rendered;
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    // Some templates reject system messages: the block goes into the first turn.
  }
  return render(withFirstBlock(turns, block));
}

function definitionsBlock(tools: readonly unknown[]): string {
  const lines = tools.map((tool) => JSON.stringify(tool)).join("\n");
  return (
    `# Tools\n\nYou may call one or more of these functions:\n<tools>\n${lines}\n</tools>\n\n` +
    "For each call, write a JSON object with the function's name and its arguments between " +
    'these tags:\n<tool_call>\n{"name": <function-name>, "arguments": <object>}\n</tool_call>'
  );
}

function withSystemBlock(turns: readonly TemplateMessage[], block: string): TemplateMessage[] {
  const [first, ...others] = turns;
  if (first?.role !== "system") return [{ role: "system", content: block }, ...turns];
  return [{ ...first, content: joined(textOf(first), block) }, ...others];
}

function withFirstBlock(turns: readonly TemplateMessage[], block: string): TemplateMessage[] {
  const [first, second, ...others] = turns;
  if (first === undefined) return [{ role: "user", content: block }];
  if (first.role !== "system" || second === undefined) {
    return [{ ...first, content: joined(block, textOf(first)) }, ...turns.slice(1)];
  }
  const content = [textOf(first), block, textOf(second)].reduce(joined);
  return [{ ...second, content }, ...others];
}

/** Calls become assistant text, results a user turn; consecutive results share one turn. */
function textTurns(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const turns: TemplateMessage[] = [];
  let results: string | null = null;
  for (const message of messages) {
    if (message.role === "tool" || message.role === "function") {
      const block = `<tool_response>\n${textOf(message)}\n</tool_response>`;
      results = results === null ? block : joined(results, block);
      continue;
    }
    const isUser = message.role === "user";
    if (results !== null && !isUser) turns.push({ role: "user", content: results });
    const before = isUser ? results : null;
    results = null;
    turns.push(before === null ? withCallText(message) : answeredTurn(message, before));
  }
  if (results !== null) turns.push({ role: "user", content: results });
  return turns;
}

function answeredTurn(message: TemplateMessage, results: string): TemplateMessage {
  return { ...message, content: joined(results, textOf(message)) };
}

function withCallText(message: TemplateMessage): TemplateMessage {
  const { tool_calls: calls, ...rest } = message;
  if (!Array.isArray(calls) || calls.length === 0) return message;
  const texts = calls.map((call: unknown) => `<tool_call>\n${callText(call)}\n</tool_call>`);
  return { ...rest, content: joined(textOf(message), texts.join("\n")) };
}

function callText(call: unknown): string {
  const target = isObject(call) && isObject(call.function) ? call.function : {};
  const { name, arguments: given } = target;
  return JSON.stringify({ name, arguments: given });
}

function joined(first: string, second: string): string {
  return first === "" ? second : `${first}\n\n${second}`;
}

/** A message's content as one text. */
function textOf({ content }: TemplateMessage): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part: unknown) => {
    if (typeof part === "string") return part;
    const text = isObject(part) ? (part.text ?? part.refusal) : null;
    return typeof text === "string" ? text : "";
  });
  return texts.join("\n");
}
