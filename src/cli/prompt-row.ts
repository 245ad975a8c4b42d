/** One prompt, and the lines of `generate --input` that contain one. */
import { EngineError, type EngineErrorOptions, type ErrorCode } from "#base";
import type { Prompt, RetentionConfig } from "#engine";
import { camelCase } from "./camel-case.ts";
import type { FlagValues, SchemaFlags } from "./flags.ts";
import { readRetention } from "./retention.ts";

/** One prompt, and its own options. */
export interface PromptRow {
  readonly prompt: Prompt;
  /** Sampling fields beside the prompt of a file, under their names in `SamplingParams`. */
  readonly sampling: Readonly<Record<string, unknown>>;
  /** Retention of its blocks; absent: not given. */
  readonly retention?: RetentionConfig;
  /** For messages, e.g. `prompts.jsonl, line 3`; null: on the command line. */
  readonly place: string | null;
}

/** An invalid row of a file. Files may have a million of them, so no stacks are kept. */
export interface RefusedRow {
  readonly place: string;
  readonly refused: { readonly code: ErrorCode; readonly message: string };
}

/** A row of a file, valid or not. */
export type InputRow = PromptRow | RefusedRow;

/** A prompt without options of its own. */
export function plainRow(prompt: Prompt, place: string | null = null): PromptRow {
  return { prompt, sampling: {}, place };
}

/** Whether `value` can be a token id; the model's vocabulary is not checked. */
export function isTokenId(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

/** The checker for a row's sampling fields, and the values of the flags. */
export interface RowCheck {
  readonly sampling: SchemaFlags;
  readonly flags: FlagValues;
}

/** A line of JSON: a text, or an object. Throws INVALID_ARGUMENT naming place and field. */
export function parsePromptLine(line: string, place: string, check: RowCheck): PromptRow {
  const value = parseJson(line, place);
  if (typeof value === "string") return plainRow(value, place);
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isObject) throw rowRefusal(place, "wanted a text or an object with a prompt");
  const { prompt, promptTokenIds, retention, ...sampling } = withCamelCase({ ...value });
  checkSampling(sampling, { ...value }, place, check);
  const kept = retention === undefined ? {} : { retention: rowRetention(retention, place) };
  return { prompt: promptOf(prompt, promptTokenIds, place), sampling, ...kept, place };
}

function promptOf(prompt: unknown, promptTokenIds: unknown, place: string): Prompt {
  if (typeof prompt === "string" && promptTokenIds === undefined) return prompt;
  if (Array.isArray(promptTokenIds) && prompt === undefined && promptTokenIds.length > 0) {
    if (promptTokenIds.every(isTokenId)) return { promptTokenIds };
  }
  throw rowRefusal(place, 'wanted either "prompt" (text) or "prompt_token_ids" (a list of ids)');
}

function rowRetention(value: unknown, place: string): RetentionConfig {
  const param = "retention";
  return readRetention(value, (problem) => rowRefusal(place, `${param}: ${problem}`, { param }));
}

function parseJson(line: string, place: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw rowRefusal(place, "wanted JSON, a text or an object with a prompt", { cause });
  }
}

/** `written`: the line's object, for field names as the user wrote them. */
function checkSampling(
  sampling: Record<string, unknown>,
  written: Record<string, unknown>,
  place: string,
  check: RowCheck,
): void {
  const stranger = Object.keys(written).find((key) => !isKnown(camelCase(key), check));
  if (stranger !== undefined) {
    const known = "known fields are prompt, prompt_token_ids and the options that";
    const name = shortened(stranger);
    const problem =
      `${name} is not a known field; ${known} perigee generate --help lists for sampling, ` +
      "e.g. max_tokens";
    throw rowRefusal(place, problem, { param: name });
  }
  const problem = check.sampling.findProblem(check.flags, sampling);
  if (problem === null) return;
  const [head = "", ...rest] = problem.param.split(".");
  const name = Object.keys(written).find((key) => camelCase(key) === head) ?? head;
  const field = [name, ...rest].join(".");
  throw rowRefusal(place, `${field} ${problem.text}`, { param: field });
}

/** Names come from the file: a message contains only the beginning of a long one. */
function shortened(name: string): string {
  return name.length > NAME_LENGTH_MAX ? `${name.slice(0, NAME_LENGTH_MAX)}…` : name;
}

const NAME_LENGTH_MAX = 80;

function isKnown(name: string, check: RowCheck): boolean {
  return ["prompt", "promptTokenIds", "retention"].includes(name) || check.sampling.has(name);
}

/** INVALID_ARGUMENT that names the row's place. */
export function rowRefusal(
  place: string,
  problem: string,
  options: EngineErrorOptions = {},
): EngineError {
  return new EngineError("INVALID_ARGUMENT", `Cannot read ${place}: ${problem}`, options);
}

/** Fields may be `max_tokens` or `maxTokens`, those of `structured_output` too. */
function withCamelCase(fields: Record<string, unknown>): Record<string, unknown> {
  const renamed: [string, unknown][] = Object.entries(fields).map(([name, value]) => {
    const isGroup = GROUPS.includes(camelCase(name));
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return [camelCase(name), isGroup && isObject ? withCamelCase({ ...value }) : value];
  });
  return Object.fromEntries(renamed);
}

/** Fields whose nested fields are ours; fields of other objects are the user's. */
const GROUPS = ["structuredOutput", "repetitionDetection"];
