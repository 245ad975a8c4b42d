/** What is wrong with a value, in our words: zod's own messages show its types and operators. */
import type { z } from "zod";

type Issue = z.core.$ZodIssue;
type Bound = Pick<z.core.$ZodIssueTooBig, "origin" | "inclusive">;

/** One wrong value: where it is, and what is wanted there, e.g. `must be at most 2`. */
export interface IssueText {
  readonly path: readonly PropertyKey[];
  readonly wanted: string;
}

const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  int: "an integer",
  bigint: "an integer",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

/** Issues of a union's branch that say: the value is not meant for this one. */
const OTHER_KIND: ReadonlySet<Issue["code"]> = new Set(["invalid_type", "invalid_value"]);

/** Says what an issue wants. Messages that a schema brings itself are kept as they are. */
export function issueText(issue: Issue): IssueText {
  if (issue.code === "invalid_union" && hasZodsMessage(issue)) return unionText(issue);
  return { path: issue.path, wanted: wantedText(issue) };
}

/** `["messages", 0, "role"]` as `messages[0].role`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === "number") return `${text}[${key}]`;
    return text === "" ? String(key) : `${text}.${String(key)}`;
  }, "");
}

function wantedText(issue: Issue): string {
  if (!hasZodsMessage(issue)) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return `must be ${TYPE_WORDS[issue.expected] ?? issue.expected}`;
    case "too_big":
      return boundText(issue, issue.maximum, issue.inclusive ? "at most" : "below");
    case "too_small":
      return boundText(issue, issue.minimum, issue.inclusive ? "at least" : "above");
    case "invalid_value":
      return `must be ${oneOf(issue.values.map((value) => JSON.stringify(value)))}`;
    case "unrecognized_keys":
      return "is not a known field; leave it out";
    case "invalid_key":
      return `key ${issue.issues[0] === undefined ? "is not valid" : wantedText(issue.issues[0])}`;
    case "invalid_format":
      return `must match ${issue.pattern ?? issue.format}`;
    default:
      return "is not valid";
  }
}

/** A schema's own messages complete "field: …", so they begin in lower case; zod's do not. */
function hasZodsMessage({ message }: Issue): boolean {
  return /^[A-Z]/.test(message);
}

function boundText({ origin }: Bound, limit: number | bigint, comparison: string): string {
  const count = `${comparison} ${limit}`;
  if (origin === "string") return `must have ${count} ${limit === 1 ? "character" : "characters"}`;
  if (origin === "array") return `must have ${count} ${limit === 1 ? "item" : "items"}`;
  return `must be ${count}`;
}

/** The complaint of the one kind that the value is of, or all kinds that it could be. */
function unionText(issue: z.core.$ZodIssueInvalidUnion): IssueText {
  const firsts = issue.errors.flatMap(([first]) => (first === undefined ? [] : [first]));
  const near = firsts.find(({ code, path }) => path.length > 0 || !OTHER_KIND.has(code));
  if (near !== undefined) {
    const { path, wanted } = issueText(near);
    return { path: [...issue.path, ...path], wanted };
  }
  const kinds = firsts.map((first) => wantedText(first).replace(/^must be /, ""));
  return { path: issue.path, wanted: `must be ${oneOf([...new Set(kinds)])}` };
}

function oneOf(choices: readonly string[]): string {
  const last = choices.at(-1) ?? "something else";
  const others = choices.slice(0, -1);
  return others.length === 0 ? last : `${others.join(", ")} or ${last}`;
}
