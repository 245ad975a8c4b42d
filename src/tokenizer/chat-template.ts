import { Template } from "@huggingface/jinja";
import { EngineError, type ErrorCode, messageOf } from "#base";
import { BOUNDED_RANGE, boundedRange } from "./bounded-range.ts";
import { withCallArguments, withObjectArguments } from "./call-arguments.ts";
import { loopsOverContent, renameCalls } from "./template-content.ts";
import type { TemplateMessage } from "./template-message.ts";
import { isObject, type NamedTokens } from "./tokenizer-files.ts";

export interface RenderOptions {
  /** OpenAI-style tool definitions. */
  readonly tools?: readonly unknown[];
  /** End with the beginning of an assistant turn; true by default. */
  readonly addGenerationPrompt?: boolean;
  /** Leave the last message open, so that the model continues it. */
  readonly continueFinalMessage?: boolean;
  /** More variables for the template, e.g. `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
}

export interface ChatTemplateOptions {
  /** Template variables `bos_token`, `eos_token`, … */
  readonly namedTokens?: NamedTokens;
  /** The template's source, which decides the error code if parsing fails; "model" by default. */
  readonly source?: "model" | "request";
}

/** Placed after the text to continue, to find the start of the template's ending. */
const endMark = "PERIGEE-CONTINUES-HERE ";

function refused(message: string, options: { cause?: unknown; param: string }): EngineError {
  return new EngineError("INVALID_ARGUMENT", message, options);
}

/** A conversation to one prompt text, by a model's Jinja template. Compiled once. */
export class ChatTemplate {
  readonly #template: Template;
  readonly #namedTokens: NamedTokens;
  readonly #takesParts: boolean;

  /** Throws TOKENIZER_INVALID (or INVALID_ARGUMENT for a request's own template). */
  constructor(source: string, options: ChatTemplateOptions = {}) {
    this.#namedTokens = options.namedTokens ?? {};
    const { template, takesParts } = parsed(source, options.source ?? "model");
    this.#template = template;
    this.#takesParts = takesParts;
  }

  /**
   * The prompt. It already contains the special tokens: encode it with `addSpecialTokens: false`.
   * Throws INVALID_ARGUMENT for a conversation that the template rejects.
   */
  render(messages: readonly TemplateMessage[], options: RenderOptions = {}): string {
    const continues = options.continueFinalMessage ?? false;
    const generates = options.addGenerationPrompt ?? !continues;
    if (continues && generates) {
      throw refused(
        "Cannot continue the final message: addGenerationPrompt must be false, it is true",
        { param: "continueFinalMessage" },
      );
    }
    const plain = messages.map((message, i) => withCallArguments(this.#withContent(message, i)));
    const marked = continues ? withMark(plain) : plain;
    const text = this.#runKindly(marked, { ...options, addGenerationPrompt: generates });
    return continues ? beforeMark(text) : text;
  }

  /** After a failure, retries with object arguments, for templates that iterate over arguments. */
  #runKindly(messages: readonly TemplateMessage[], options: RenderOptions): string {
    try {
      return this.#run(messages, options);
    } catch (error) {
      const objects = messages.map(withObjectArguments);
      if (objects.every((message, i) => message === messages[i])) throw error;
      return this.#run(objects, options);
    }
  }

  #run(messages: readonly TemplateMessage[], options: RenderOptions): string {
    const named = Object.entries(this.#namedTokens);
    const tokens = Object.fromEntries(named.map(([name, text]) => [`${name}_token`, text]));
    const tools = options.tools ?? [];
    try {
      return this.#template.render({
        [BOUNDED_RANGE]: boundedRange,
        ...tokens,
        ...options.variables,
        messages,
        ...(tools.length > 0 ? { tools } : {}),
        add_generation_prompt: options.addGenerationPrompt ?? true,
      });
    } catch (error) {
      const wanted = "Cannot render the chat template: it must accept the messages";
      throw refused(`${wanted}, ${messageOf(error)}`, { cause: error, param: "messages" });
    }
  }

  /** Content parts stay parts if the template loops over them; otherwise "\n" joins their texts. */
  #withContent(message: TemplateMessage, index: number): TemplateMessage {
    const { content } = message;
    if (!Array.isArray(content)) return { ...message, content: content ?? "" };
    const texts = content.map((part: unknown) => partText(part, index));
    if (!this.#takesParts) return { ...message, content: texts.join("\n") };
    return { ...message, content: texts.map((text) => ({ type: "text", text })) };
  }
}

interface Parsed {
  readonly template: Template;
  readonly takesParts: boolean;
}

/** A template that is nested too deeply for `renameCalls` counts as one that cannot be parsed. */
function parsed(source: string, from: "model" | "request"): Parsed {
  try {
    const template = new Template(source);
    renameCalls(template.parsed, "range", BOUNDED_RANGE);
    return { template, takesParts: loopsOverContent(template.parsed) };
  } catch (error) {
    const code: ErrorCode = from === "model" ? "TOKENIZER_INVALID" : "INVALID_ARGUMENT";
    const wanted = "Cannot use the chat template: it must be a Jinja template";
    const options = { cause: error, param: "chat_template" };
    throw new EngineError(code, `${wanted}, ${messageOf(error)}`, options);
  }
}

/** The text of one content part, in all forms that OpenAI's clients send. */
function partText(part: unknown, index: number): string {
  if (typeof part === "string") return part;
  const { type, text, refusal } = isObject(part) ? part : {};
  if ((type === "text" || type === "input_text") && typeof text === "string") return text;
  if (type === "refusal" && typeof refusal === "string") return refusal;
  const wanted = "content parts must be text (this model reads no images, audio or files)";
  const found = JSON.stringify(type ?? typeof part);
  throw refused(`Cannot render message ${index}: ${wanted}, ${found}`, {
    param: `messages[${index}].content`,
  });
}

/** The messages with the mark after the last one's text. */
function withMark(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const last = messages.at(-1);
  if (last === undefined) {
    throw refused("Cannot continue the final message: there must be one, there are 0 messages", {
      param: "messages",
    });
  }
  const { content } = last;
  const marked = Array.isArray(content)
    ? [...content.slice(0, -1), { type: "text", text: `${lastText(content)}${endMark}` }]
    : `${content ?? ""}${endMark}`;
  return [...messages.slice(0, -1), { ...last, content: marked }];
}

/** The text of the last part; `#withContent` has made all parts text. */
function lastText(parts: readonly unknown[]): string {
  const part = parts.at(-1);
  return isObject(part) && typeof part.text === "string" ? part.text : "";
}

/** The text up to the mark. A template that trims messages has trimmed the mark's space too. */
function beforeMark(text: string): string {
  const trimmedMark = endMark.trimEnd();
  const end = text.lastIndexOf(trimmedMark);
  if (end < 0) {
    throw refused(
      "Cannot continue the final message: the chat template must show it, but leaves it out",
      { param: "continueFinalMessage" },
    );
  }
  const keepsSpaces = text.startsWith(endMark, end);
  return keepsSpaces ? text.slice(0, end) : text.slice(0, end).trimEnd();
}

/** The template for a request from tokenizer_config.json's `chat_template`, or null. */
export function pickTemplate(source: unknown, hasTools: boolean): string | null {
  if (typeof source === "string") return source;
  if (!Array.isArray(source)) return null;
  const entries: readonly unknown[] = source;
  const named = (name: string): string | null => {
    const entry = entries.find((candidate) => isObject(candidate) && candidate.name === name);
    return isObject(entry) && typeof entry.template === "string" ? entry.template : null;
  };
  return (hasTools ? named("tool_use") : null) ?? named("default");
}

/** INVALID_ARGUMENT for a conversation with a model that has no chat template. */
export function missingTemplate(model: string): EngineError {
  const problem = `Cannot render a conversation: ${model} must have a chat template, it has none`;
  const remedy =
    "Pass one (chatTemplate, --chat-template FILE), or give a plain prompt (generate, " +
    "/v1/completions)";
  return refused(`${problem}. ${remedy}`, { param: "chat_template" });
}
