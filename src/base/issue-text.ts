/**
 * Messages about wrong settings. Issues are zod's, described by their structure: this folder
 * imports no package.
 */
import { EngineError } from "./errors.ts";
import { nearestName } from "./nearest-name.ts";
import { shortText, valueText } from "./value-text.ts";

/** The fields of an issue that messages use; the present ones depend on its code. */
export interface SettingIssue {
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly path?: readonly PropertyKey[] | undefined;
  /** Of `invalid_type`: the required type. */
  readonly expected?: string | undefined;
  /** Of `too_small` and `too_big`: the measured kind, e.g. `array`. */
  readonly origin?: string | undefined;
  readonly minimum?: number | bigint | undefined;
  readonly maximum?: number | bigint | undefined;
  readonly inclusive?: boolean | undefined;
  /** Of `unrecognized_keys`. */
  readonly keys?: readonly string[] | undefined;
  /** Of `invalid_value`: all allowed values. */
  readonly values?: readonly unknown[] | undefined;
  /** Of `invalid_union`: the issues of each alternative. */
  readonly errors?: readonly (readonly SettingIssue[])[] | undefined;
}

/** A wrong setting: its name, and its requirement. */
export interface SettingProblem {
  /** Dotted, e.g. `kvCache.blockTokens`; "" for the settings as a whole. */
  readonly param: string;
  /** E.g. `must be at most 2, current value is 9`. */
  readonly text: string;
}

/** The setting's requirement; for a schema's `safeParse(settings, { error: issueText })`. */
export function issueText(issue: SettingIssue): string {
  switch (issue.code) {
    case "too_big":
      return boundText(issue.inclusive === false ? "less than" : "at most", issue.maximum, issue);
    case "too_small":
      return boundText(issue.inclusive === false ? "more than" : "at least", issue.minimum, issue);
    case "invalid_type":
      return `must be ${typeText(issue.expected)}`;
    case "invalid_value":
      return `must be ${alternatives((issue.values ?? []).map(String))}`;
    case "unrecognized_keys":
      return "is not a known field";
    case "invalid_union":
      return unionText(issue.errors ?? []);
    default:
      return issue.message ?? "is invalid";
  }
}

/**
 * The problem of one issue of `settings`, with the setting's current value. `known`: the names of
 * all fields, dotted, of which the one that was meant is told.
 */
export function describeIssue(
  issue: SettingIssue,
  settings: unknown,
  known: readonly string[] = [],
): SettingProblem {
  const { path = [], message } = issue;
  const [unknownKey] = issue.keys ?? [];
  if (issue.code === "unrecognized_keys" && unknownKey !== undefined) {
    const meant = meantText(dotted(path), unknownKey, known);
    return { param: shortText(dotted([...path, unknownKey])), text: issueText(issue) + meant };
  }
  const value = path.length === 0 ? undefined : valueAt(settings, path);
  const shown = issue.code === "invalid_type" ? mistypedText(value, issue) : valueText(value);
  const current = value === undefined ? "" : `, current value is ${shown}`;
  return { param: dotted(path), text: `${message ?? issueText(issue)}${current}` };
}

/** INVALID_ARGUMENT for the first issue of a schema in `settings`; `known` as above. */
export function invalidSetting(
  refusal: { readonly issues: readonly SettingIssue[] },
  settings: unknown,
  known: readonly string[] = [],
): EngineError {
  const { param, text } = describeIssue(refusal.issues[0] ?? {}, settings, known);
  const message = `Cannot use ${param || "options"}: ${text}`;
  return new EngineError("INVALID_ARGUMENT", message, { param, cause: refusal });
}

/** The field that was probably meant: a close name beside it, or its own name elsewhere. */
function meantText(parent: string, key: string, known: readonly string[]): string {
  const prefix = parent === "" ? "" : `${parent}.`;
  const beside = known
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
    .filter((name) => !name.includes("."));
  const near = nearestName(key, beside);
  if (near !== null) return `; did you mean ${prefix}${near}?`;
  const elsewhere = known.find((name) => name === key || name.endsWith(`.${key}`));
  return elsewhere === undefined ? "" : `; did you mean ${elsewhere}?`;
}

/** A text of the wrong type in quotes; where a list is wanted, which a secret may be, its type. */
function mistypedText(value: unknown, { expected }: SettingIssue): string {
  if (typeof value !== "string") return valueText(value);
  return expected === "array" ? "a text" : JSON.stringify(shortText(value));
}

/** The bounds of arrays and texts are those of their length. */
function boundText(
  comparison: string,
  bound: number | bigint | undefined,
  { origin }: SettingIssue,
): string {
  if (origin === "string" || origin === "array") {
    if (comparison === "at least" && Number(bound) === 1) return "must not be empty";
    return `must have ${comparison} ${bound} ${origin === "array" ? "items" : "characters"}`;
  }
  return `must be ${comparison} ${bound}`;
}

const TYPE_TEXTS: Readonly<Record<string, string>> = {
  int: "an integer",
  bigint: "an integer",
  number: "a number",
  string: "a text",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
};

function typeText(expected: string | undefined): string {
  return TYPE_TEXTS[expected ?? ""] ?? expected ?? "something else";
}

/** The requirement of the closest alternative; without one, the types of all. */
function unionText(errors: readonly (readonly SettingIssue[])[]): string {
  const first = errors.flatMap(([issue]) => (issue === undefined ? [] : [issue]));
  const close = first.find(({ code, path = [] }) => code !== "invalid_type" || path.length > 0);
  if (close !== undefined) return close.message ?? issueText(close);
  const types = new Set(first.map(({ expected }) => typeText(expected)));
  // zod expects "number" of integers, too: of an integer or a bigint the text would be "a number or
  // an integer".
  if (types.has("an integer")) types.delete("a number");
  return `must be ${alternatives([...types])}`;
}

function alternatives(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

function dotted(path: readonly PropertyKey[]): string {
  return path.map(String).join(".");
}

function valueAt(settings: unknown, path: readonly PropertyKey[]): unknown {
  let value = settings;
  for (const key of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}
