import type { z } from "zod";
import { EngineError } from "#base";

type Issue = z.core.$ZodIssue;

const shownValueLength = 80;
const shownItems = 8;

/** Checks a request body. Throws INVALID_ARGUMENT that names the first wrong field. */
export function parseRequest<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw invalidField(parsed.error.issues[0], body);
}

/** An error about one field of a request. */
export function fieldError(field: string, wanted: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot accept request: ${field} ${wanted}`, {
    param: field,
  });
}

function invalidField(issue: Issue | undefined, body: unknown): EngineError {
  const path = (issue?.path ?? []).map(String);
  if (issue?.code === "unrecognized_keys") {
    const field = [...path, issue.keys[0]].join(".");
    return fieldError(field, "is not a known field; leave it out");
  }
  const field = path.join(".");
  if (field === "") return fieldError("body", "must be a JSON object");
  const wanted = (issue?.message ?? "is invalid").replace(/^Invalid input: expected/, "must be");
  return fieldError(field, `${wanted}, current value is ${shown(valueAt(body, path))}`);
}

function valueAt(body: unknown, path: readonly string[]): unknown {
  let value = body;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Object.entries(value).find(([name]) => name === key)?.[1];
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
