import { readFileSync, statSync } from "node:fs";
import { EngineError, messageOf } from "#base";
import { invalidFile } from "./invalid-file.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

/** The largest known tokenizer.json has 35 MB. */
const JSON_BYTES_MAX = 2 ** 28;

/** Reads a JSON object from a file. Null if there is no such file. */
export function readJsonObject(path: string): JsonObject | null {
  const text = readTextFile(path);
  return text === null ? null : parseJsonObject(text, { path, field: "content" });
}

/** Reads UTF-8 text. Null if there is no such file. Throws IO, or CHECKPOINT_INVALID by size. */
export function readTextFile(path: string): string | null {
  try {
    const status = statSync(path);
    // A read of a pipe would block, and a device has no end.
    if (!status.isFile()) throw new Error("it is no regular file");
    const sizeBytes = status.size;
    if (sizeBytes > JSON_BYTES_MAX) {
      const must = `must be at most ${JSON_BYTES_MAX} bytes`;
      throw invalidFile({ path, field: "file size", must, actual: sizeBytes });
    }
    return readFileSync(path, "utf8");
  } catch (cause) {
    if (cause instanceof EngineError) throw cause;
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return null;
    const message = `Cannot read ${path}: it must be readable, ${messageOf(cause)}`;
    throw new EngineError("IO", message, { cause });
  }
}

/** Parses an object. `at` names the text in the message. */
export function parseJsonObject(
  text: string,
  at: { readonly path: string; readonly field: string },
): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalidFile({ ...at, must: "must be valid JSON", actual: messageOf(cause), cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidFile({ ...at, must: "must be a JSON object", actual: typeof value });
  }
  if (isDeeperThan(value, DEPTH_MAX)) {
    throw invalidFile({ ...at, must: `must nest at most ${DEPTH_MAX} deep`, actual: "deeper" });
  }
  return value as JsonObject; // An object, and JSON's keys are strings.
}

/** Readers of parsed JSON recurse. Real files nest less than 20 deep. */
const DEPTH_MAX = 200;

/** Whether objects and lists nest more than `most` deep. */
function isDeeperThan(root: object, most: number): boolean {
  let level: readonly object[] = [root];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > most) return true;
    const inner: object[] = [];
    for (const container of level) {
      // Vocabularies have a million entries, so no list of them is made.
      for (const key in container) {
        const child: unknown = Reflect.get(container, key);
        if (typeof child === "object" && child !== null) inner.push(child);
      }
    }
    level = inner;
  }
  return false;
}
