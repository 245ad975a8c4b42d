import type { z } from "zod";
import { EngineError, fieldNames, issueText, nearestName } from "#base";
import { SentFieldError } from "../http-errors.ts";
import { requestNames } from "../request-names.ts";

const shownValueLength = 80;
const shownItems = 8;

/** Checks a request body. Throws INVALID_ARGUMENT naming the first invalid field. */
export function parseRequest<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
): z.output<Schema> {
  const parsed = schema.safeParse(body, { error: issueText });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const [key] = issue?.code === "unrecognized_keys" ? issue.keys : [];
  if (issue === undefined || key === undefined) throw invalidField(parsed.error, body);
  throw unknownField(issue.path, key, fieldNames(schema));
}

/** The error for a field that requests do not have, and the one beside it that was meant. */
function unknownField(
  path: readonly PropertyKey[],
  key: string,
  known: readonly string[],
): EngineError {
  const beside = path.length === 0 ? known.filter((name) => !name.includes(".")) : [];
  const near = nearestName(key, beside);
  const remedy = near === null ? "leave it out" : `did you mean ${near}?`;
  const field = pathText([...path, key]);
  return new SentFieldError(field, `Cannot use ${field}: is not a known field; ${remedy}`);
}

/** An error about one field of a request; `wanted` completes its name: `must be at most 2`. */
export function fieldError(field: string, wanted: string): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot use ${field}: ${wanted}`, { param: field });
}

/**
 * The error for the first issue that a schema reports for `input`, parsed with `issueText`.
 * `nameOf`: the request's name of the field at a path.
 */
export function invalidField(
  error: z.ZodError,
  input: unknown,
  nameOf: (path: readonly PropertyKey[]) => string = pathText,
): EngineError {
  const [issue] = error.issues;
  if (issue === undefined || (issue.path.length === 0 && issue.code === "invalid_type")) {
    return fieldError("body", "must be a JSON object");
  }
  const { path } = issue;
  switch (issue.code) {
    case "unrecognized_keys":
      return fieldError(
        nameOf([...path, ...issue.keys.slice(0, 1)]),
        `${issue.message}; leave it out`,
      );
    case "invalid_key":
      return fieldError(nameOf(path), `key ${issue.issues[0]?.message}`);
    default: {
      const current = shown(valueAt(input, path));
      return fieldError(
        nameOf(path),
        `${requestNames(issue.message)}, current value is ${current}`,
      );
    }
  }
}

/** `["messages", 0, "role"]` as `messages[0].role`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`;
    return text === "" ? String(key) : `${text}.${String(key)}`;
  }, "");
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
