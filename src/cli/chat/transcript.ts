/** Conversations as files: what `/save` writes and `/load` reads. */
import { closeSync, openSync, readSync, writeFileSync } from "node:fs";
import { EngineError, isPlainObject, messageOf } from "#base";
import type { ChatMessage } from "#engine";
import { fileProblem } from "../file-problem.ts";

/** Many times the context of any model. */
const BYTES_MAX = 16 * 2 ** 20;
const MESSAGES_MAX = 100_000;
const ROLES = new Set(["system", "user", "assistant"]);

/** Writes messages as JSON, readable for this user alone. Throws IO. */
export function saveTranscript(
  file: string,
  model: string,
  messages: readonly ChatMessage[],
): void {
  const text = `${JSON.stringify({ model, messages }, null, 2)}\n`;
  try {
    writeFileSync(file, text, { mode: 0o600 });
  } catch (cause) {
    throw fileProblem({ action: "write", file, wanted: "a conversation", cause });
  }
}

/**
 * The messages of a file that `saveTranscript` wrote, or of the body of a chat request. Throws IO,
 * and INVALID_ARGUMENT for a file of something else.
 */
export function loadTranscript(file: string): ChatMessage[] {
  const text = readText(file);
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (cause) {
    throw refusal(file, `must be JSON (${messageOf(cause)})`);
  }
  const messages = isPlainObject(content) ? content.messages : content;
  if (!Array.isArray(messages)) throw refusal(file, "must have a list of messages");
  if (messages.length > MESSAGES_MAX) {
    throw refusal(file, `must have at most ${MESSAGES_MAX} messages, it has ${messages.length}`);
  }
  return messages.map((message: unknown, place) => {
    const { role, content: said } = isPlainObject(message) ? message : {};
    if (typeof role === "string" && ROLES.has(role) && typeof said === "string") {
      return { role, content: said };
    }
    const wanted = "must have a role (system, user or assistant) and a text";
    throw refusal(file, `message ${place + 1} ${wanted}`);
  });
}

function readText(file: string): string {
  const bytes = Buffer.alloc(BYTES_MAX + 1);
  let length = 0;
  try {
    const handle = openSync(file, "r");
    try {
      for (let read = 1; read > 0 && length < bytes.length; length += read) {
        read = readSync(handle, bytes, length, bytes.length - length, null);
      }
    } finally {
      closeSync(handle);
    }
  } catch (cause) {
    throw fileProblem({ action: "read", file, wanted: "a saved conversation", cause });
  }
  if (length <= BYTES_MAX) return bytes.toString("utf8", 0, length);
  throw refusal(file, `must have at most ${BYTES_MAX} bytes`);
}

function refusal(file: string, problem: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot load ${file}: it ${problem}`);
}
