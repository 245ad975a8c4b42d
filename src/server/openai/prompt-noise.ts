/**
 * Text that is known to change with every request and to stand before all else: no prefix of such a
 * prompt is ever found in a cache. It is moved behind the conversation, where it costs its own
 * tokens only. Nothing is left out.
 */
import { isPlainObject } from "#base";
import type { ChatRequest } from "./chat-request.ts";

type Message = ChatRequest["messages"][number];

/** Coding agents name their version and a check value of each request. */
const BILLING = "x-anthropic-billing-header";
/** `x-anthropic-billing-header: cc_version=2.1; cch=ab12c;` and the line's end. */
const BILLING_LINE = new RegExp(
  `^\\s{0,16}${BILLING}:(?: {0,4}[\\w.-]{1,64}=[^;\\n]{0,256}(?:;|(?=\\n|$))){1,32}` +
    "[ \\t]{0,16}\\n{0,4}",
);
/** Longest text that is looked at: headers are short. */
const NOISE_LENGTH_MAX = 2048;

/** A conversation without noise before it. */
export interface QuietMessages {
  readonly messages: readonly Message[];
  /** What was moved, by name; empty: nothing. */
  readonly moved: readonly string[];
}

/** Moves noise at the beginning of the first system message to the end of the last message. */
export function moveNoise(messages: readonly Message[]): QuietMessages {
  const [first, ...others] = messages;
  const noise = first === undefined ? "" : leadingNoise(first);
  if (first === undefined || noise === "") return { messages, moved: [] };
  const quiet = withoutBeginning(first, noise.length);
  const rest = isEmpty(quiet) ? others : [quiet, ...others];
  const last = rest.findLastIndex(({ role }) => role === "user" || role === "tool");
  // A conversation without an end of its own stays as it is.
  if (last < 0) return { messages, moved: [] };
  return {
    messages: rest.map((message, place) => (place === last ? withEnd(message, noise) : message)),
    moved: [BILLING],
  };
}

/** A prompt's text without the noise that it begins with: for routers, which compare beginnings. */
export function withoutNoise(text: string): string {
  const noise = BILLING_LINE.exec(text.slice(0, NOISE_LENGTH_MAX))?.[0] ?? "";
  return text.slice(noise.length);
}

/** Whether a body's messages, checked or not, begin with noise. */
export function beginsWithNoise(messages: unknown): boolean {
  const first: unknown = Array.isArray(messages) ? messages[0] : null;
  return isPlainObject(first) && noiseOf(first.role, first.content) !== "";
}

function leadingNoise({ role, content }: Message): string {
  return noiseOf(role, content);
}

function noiseOf(role: unknown, content: unknown): string {
  if (role !== "system" && role !== "developer") return "";
  const part: unknown = Array.isArray(content) ? content[0] : content;
  const text: unknown = isPlainObject(part) ? part.text : part;
  if (typeof text !== "string") return "";
  return BILLING_LINE.exec(text.slice(0, NOISE_LENGTH_MAX))?.[0] ?? "";
}

function withoutBeginning(message: Message, length: number): Message {
  const { content } = message;
  if (typeof content === "string") return { ...message, content: content.slice(length) };
  const [first, ...others] = content ?? [];
  if (first === undefined || !("text" in first)) return message;
  const text = String(first.text).slice(length);
  const parts = text === "" ? others : [{ ...first, text }, ...others];
  return { ...message, content: parts } as Message; // its first part is a text, as before
}

function isEmpty({ content }: Message): boolean {
  return content === "" || (Array.isArray(content) && content.length === 0);
}

function withEnd(message: Message, noise: string): Message {
  const { content } = message;
  const text = noise.trim();
  if (Array.isArray(content)) return { ...message, content: [...content, { type: "text", text }] };
  return { ...message, content: content ? `${content}\n${text}` : text };
}
