/** Conversations as every door takes them: over HTTP, in TypeScript, from other APIs. */
import { EngineError, isPlainObject } from "#base";
import type { ChatMessage } from "#engine/protocol";
import { wrongKind } from "./request-check.ts";

/** Who speaks; `developer` is `system` to a template. */
export const CHAT_ROLES = [
  ...(["system", "developer", "user", "assistant", "tool", "function"] as const),
] as const;
/** Kinds of content parts, each with its text in a field. */
export const TEXT_PARTS = ["text", "input_text"] as const;

const SAYING: readonly unknown[] = ["system", "developer", "user"];
const ROLES: readonly unknown[] = CHAT_ROLES;
const TEXT_KINDS: readonly unknown[] = TEXT_PARTS;

/** Whether a message of the role says nothing without content: others may have calls alone. */
export function needsContent(role: unknown): boolean {
  return SAYING.includes(role);
}

/**
 * Messages as templates expect them, after the rules of `POST /v1/chat/completions`: a known role,
 * and content that is text. Throws INVALID_ARGUMENT.
 */
export function checkedMessages(messages: unknown): readonly ChatMessage[] {
  if (!Array.isArray(messages)) throw wrongKind("messages", "a list of messages", messages);
  if (messages.length === 0) {
    const message = "Cannot use messages: must have at least one message, there is none";
    throw new EngineError("INVALID_ARGUMENT", message, { param: "messages" });
  }
  return Array.from(messages, (message: unknown, place) =>
    checkedMessage(message, `messages[${place}]`),
  );
}

function checkedMessage(message: unknown, param: string): ChatMessage {
  if (typeof message !== "object" || message === null || Array.isArray(message)) {
    throw wrongKind(param, "an object with a role", message);
  }
  const { role, content }: { readonly role?: unknown; readonly content?: unknown } = message;
  if (!isRole(role)) {
    const known = `${CHAT_ROLES.slice(0, -1).join(", ")} or ${CHAT_ROLES.at(-1)}`;
    throw wrongKind(`${param}.role`, known, role);
  }
  checkContent(content, `${param}.content`, role);
  const asTemplate = role === "developer" ? "system" : role;
  // What `checkContent` passes, the cast names.
  return { ...message, role: asTemplate, content: content ?? "" } as ChatMessage;
}

function checkContent(content: unknown, param: string, role: string): void {
  if (typeof content === "string") return;
  if (content === undefined || content === null) {
    if (!needsContent(role)) return;
    const remedy = `a message of the ${role} is what it says`;
    throw wrongKind(param, "text or a list of text parts", content, remedy);
  }
  if (!Array.isArray(content)) throw wrongKind(param, "text or a list of text parts", content);
  const wrong = content.findIndex((part: unknown) => !isTextPart(part));
  if (wrong < 0) return;
  const wanted = "a text part: this model reads no images, audio or files";
  throw wrongKind(`${param}[${wrong}]`, wanted, content[wrong]);
}

function isRole(role: unknown): role is (typeof CHAT_ROLES)[number] {
  return ROLES.includes(role);
}

function isTextPart(part: unknown): boolean {
  if (!isPlainObject(part)) return false;
  if (part.type === "refusal") return typeof part.refusal === "string";
  return TEXT_KINDS.includes(part.type) && typeof part.text === "string";
}
