import type { z } from "zod";
import { EngineError } from "#base";
import { requestNames } from "../request-names.ts";
import { issueText, pathText } from "./issue-text.ts";

const shownValueLength = 80;
const shownItems = 8;

/** Checks a request body. Throws INVALID_ARGUMENT that names the first wrong field. */
export function parseRequest<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw invalidField(parsed.error, body);
}

/** An error about one field of a request; `wanted` completes its name: `must be at most 2`. */
export function fieldError(field: string, wanted: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot use ${field}: ${wanted}`, { param: field });
}

/** What a schema refuses first in `input`. `nameOf`: what the request calls the field at a path. */
export function invalidField(
  error: z.ZodError,
  input: unknown,
  nameOf: (path: readonly PropertyKey[]) => string = pathText,
): EngineError {
  const [issue] = error.issues;
  if (issue === undefined) return fieldError("body", "is not valid");
  const { path, wanted } = issueText(issue);
  if (issue.code === "unrecognized_keys") {
    return fieldError(nameOf([...path, issue.keys[0] ?? ""]), wanted);
  }
  if (path.length === 0) return fieldError("body", "must be a JSON object");
  const current = issue.code === "invalid_key" ? path.at(-1) : valueAt(input, path);
  const text = `${requestNames(wanted)}, current value is ${shown(current)}`;
  return fieldError(nameOf(path), text);
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Object.entries(value).find(([name]) => name === String(key))?.[1];
  }
  return value;
}

function shown(value: unknown): string {
  if (value === undefined) return "missing";
  if (Array.isArray(value) && value.length > shownItems) return `a list of ${value.length}`;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return "an object";
  const text = JSON.stringify(value);
  return text.length > shownValueLength ? `${text.slice(0, shownValueLength)}…` : text;
}
