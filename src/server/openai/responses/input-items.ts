/** Items of a conversation, as OpenAI's Responses have them. Fields without effect may be there. */
import { z } from "zod";
import { isPlainObject } from "#base";
import { boundedList, LIST_LIMITS } from "../bounded.ts";

const idText = z.string().min(1).max(256);

const textPart = z.looseObject({
  type: z.enum(["input_text", "output_text", "text"]),
  text: z.string(),
});
const contentPart = z.discriminatedUnion(
  "type",
  [textPart, z.looseObject({ type: z.literal("refusal"), refusal: z.string() })],
  "must have type input_text, output_text or refusal: this model reads no images, audio or files",
);

const parts = boundedList(contentPart, { max: LIST_LIMITS.contentParts });

const messageItem = z.looseObject({
  type: z.literal("message"),
  id: idText.nullish(),
  role: z.enum(["user", "assistant", "system", "developer"]),
  content: z.union([z.string(), parts], "must be text or a list of text parts"),
});

const callItem = z.looseObject({
  type: z.literal("function_call"),
  id: idText.nullish(),
  call_id: idText,
  name: z.string().min(1).max(256),
  arguments: z.string(),
});

const callOutputItem = z.looseObject({
  type: z.literal("function_call_output"),
  id: idText.nullish(),
  call_id: idText,
  output: z.union([z.string(), parts], "must be text or a list of text parts"),
});

const reasoningPart = z.looseObject({ type: z.string(), text: z.string() });

const reasoningItem = z.looseObject({
  type: z.literal("reasoning"),
  id: idText.nullish(),
  summary: boundedList(reasoningPart, { max: LIST_LIMITS.contentParts }).nullish(),
  content: boundedList(reasoningPart, { max: LIST_LIMITS.contentParts }).nullish(),
});

/** Says what was searched; the answer behind it has what was found. */
const searchItem = z.looseObject({
  type: z.literal("file_search_call"),
  id: idText.nullish(),
  queries: boundedList(z.string(), { max: LIST_LIMITS.contentParts }).nullish(),
});

const referenceItem = z.looseObject({ type: z.literal("item_reference"), id: idText });

const TYPES =
  "must have type message, function_call, function_call_output, reasoning, file_search_call or " +
  "item_reference";

const item = z.discriminatedUnion(
  "type",
  [messageItem, callItem, callOutputItem, reasoningItem, searchItem, referenceItem],
  TYPES,
);

/** A request's `input`: a list, or a text, which is read as a user's message. */
export const responseInput = z.preprocess(
  listed,
  boundedList(z.preprocess(typed, item), {
    ...{ max: LIST_LIMITS.messages },
    wanted: `must have at most ${LIST_LIMITS.messages} items`,
  }),
);

/** An item as a request may name it. */
export type InputItem = z.output<typeof item>;
/** An item with everything it says. */
export type ConversationItem = Exclude<InputItem, { readonly type: "item_reference" }>;
export type MessageItem = z.output<typeof messageItem>;
export type ItemText = MessageItem["content"];

function listed(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return [{ type: "message", role: "user", content: [{ type: "input_text", text: value }] }];
}

/** An item's type may be missing where its fields tell it. */
function typed(value: unknown): unknown {
  if (!isPlainObject(value) || (value.type ?? null) !== null) return value;
  const { type: _none, ...rest } = value;
  if (Object.hasOwn(rest, "role")) return { ...rest, type: "message" };
  return Object.hasOwn(rest, "id") ? { ...rest, type: "item_reference" } : value;
}

/** The text of a message or of a call's output. */
export function textOf(content: ItemText): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "refusal" ? part.refusal : part.text)).join("");
}
