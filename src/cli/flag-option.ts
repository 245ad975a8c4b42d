import { existsSync } from "node:fs";
import { InvalidArgumentError, Option } from "commander";
import { EngineError } from "#base";

/** The part of JSON Schema that our settings use. */
export interface FieldSchema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly FieldSchema[];
  readonly description?: string;
  readonly default?: unknown;
  readonly items?: FieldSchema;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
}

/** What a user writes for null. */
const NONE = "none";
/** What that becomes: commander has no null, and the text may be a choice. */
export const NO_VALUE: unique symbol = Symbol(NONE);

type Parse = (text: string, previous: unknown) => unknown;

/** One field as a flag: what it takes, how it is read, what `--help` says. */
export function flagOption(flag: string, schema: FieldSchema): Option {
  const kinds = kindsOf(schema);
  const help = helpOf(schema);
  if (kinds.some(({ type }) => type === "boolean")) {
    return new SwitchOption(flag, help, wordsOf(kinds));
  }
  const kind = kinds.find(({ type }) => type === "array") ?? kinds[0] ?? {};
  const isChoice = kind.enum?.includes(NONE) === true;
  const nullable = kinds.some(({ type }) => type === "null") && !isChoice;
  const parse = parserOf(kind);
  const option = new Option(`--${flag} <${placeholderOf(kind)}>`, help + choicesOf(kind));
  return option.argParser((text: string, previous: unknown) =>
    nullable && text === NONE ? NO_VALUE : parse(text, previous),
  );
}

const ON = ["on", "true", "1"];
const OFF = ["off", "false", "0"];

/** `--ignore-eos` alone, with `on`, with `off`, or with a word of its own. */
class SwitchOption extends Option {
  /** What may stand behind it. */
  readonly values: readonly string[];

  constructor(flag: string, help: string, words: readonly string[]) {
    super(`--${flag} [${["on", "off", ...words].join("|")}]`, help);
    this.values = [...ON, ...OFF, ...words];
    this.argParser((text: string) => (words.includes(text) ? text : parseSwitch(text, words)));
  }
}

/** What a switch may be beside true and false. */
function wordsOf(kinds: readonly FieldSchema[]): string[] {
  return kinds.flatMap((kind) => (typeof kind.const === "string" ? [kind.const] : []));
}

/**
 * The words of a command line, with `=on` behind each bare switch whose next word is something
 * else: commander would take `--ignore-eos models/pocket` for a value of the switch. Throws
 * INVALID_ARGUMENT for a word that is neither a value nor, as far as `mayBeModel` knows, a model.
 */
export function withPlainSwitches(
  words: readonly string[],
  options: readonly Option[],
  mayBeModel: (word: string) => boolean = looksLikeModel,
): string[] {
  const valuesOf = new Map<string | undefined, readonly string[]>();
  for (const option of options) {
    if (option instanceof SwitchOption) valuesOf.set(option.long, option.values);
  }
  return words.map((word, place) => {
    const values = valuesOf.get(word);
    const next = words[place + 1] ?? "";
    if (values === undefined || values.includes(next)) return word;
    if (next !== "" && !next.startsWith("-") && !mayBeModel(next)) {
      throw strayValue(word, next, values);
    }
    return `${word}=on`;
  });
}

/** A path that is there, or the name of one or of a repository of the hub. */
function looksLikeModel(word: string): boolean {
  return word.includes("/") || existsSync(word);
}

function strayValue(flag: string, value: string, values: readonly string[]): EngineError {
  const shown = values.filter((word) => ![...ON.slice(1), ...OFF.slice(1)].includes(word));
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${flag}: must be ${shown.slice(0, -1).join(", ")} or ${shown.at(-1)}, ` +
      `current value is ${value}; if that is the model, put it before all flags`,
    { param: flag },
  );
}

/** A schema's alternatives, however they are nested; a list of types becomes one each. */
function kindsOf(schema: FieldSchema): FieldSchema[] {
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap(kindsOf);
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
  return types.map((type) => ({ ...schema, type }));
}

/** `null: all cores` reads as `default: all cores` where that is the default. */
function helpOf({ description = "", default: fallback }: FieldSchema): string {
  const shown = defaultText(fallback);
  if (shown !== "") return `${description.replace("null", NONE)} (default: ${shown})`;
  const [, before, meaning] = /^(.*?)[;.]? null(?: or -1)?: (.*?)\.$/.exec(description) ?? [];
  return meaning === undefined ? description : `${before}. (default: ${meaning})`;
}

function defaultText(value: unknown): string {
  if (value === undefined || value === null) return "";
  if (typeof value === "boolean") return value ? "on" : "off";
  if (typeof value === "object")
    return Object.keys(value).length === 0 ? "" : JSON.stringify(value);
  return String(value);
}

/** Few choices stand in the placeholder, more behind the help. */
const PLACEHOLDER_LENGTH_MAX = 24;

function choicesOf({ enum: choices }: FieldSchema): string {
  const text = choices?.join(", ") ?? "";
  return text.length > PLACEHOLDER_LENGTH_MAX ? ` (choices: ${text})` : "";
}

function placeholderOf(kind: FieldSchema): string {
  if (kind.enum !== undefined) return choicesOf(kind) === "" ? kind.enum.join("|") : "choice";
  switch (kind.type) {
    case "integer":
    case "number":
      return "n";
    case "object":
      return "json";
    case "array":
      return isNumeric(kind.items) ? "n,n,…" : "text";
    default:
      return "text";
  }
}

function parserOf(kind: FieldSchema): Parse {
  if (kind.enum !== undefined) return choiceParser(kind.enum.map(String));
  switch (kind.type) {
    case "integer":
    case "number":
      return parseNumber;
    case "object":
      return parseJson;
    case "array":
      return isNumeric(kind.items) ? appendNumbers : appendText;
    default:
      return (text) => text;
  }
}

function isNumeric(items: FieldSchema | undefined): boolean {
  return items?.type === "integer" || items?.type === "number";
}

function choiceParser(choices: readonly string[]): Parse {
  return (text) => {
    if (choices.includes(text)) return text;
    throw new InvalidArgumentError(`Wanted one of ${choices.join(", ")}.`);
  };
}

function parseSwitch(text: string, words: readonly string[]): boolean {
  if (ON.includes(text)) return true;
  if (OFF.includes(text)) return false;
  const wanted = ["on", "off", ...words];
  throw new InvalidArgumentError(`Wanted ${wanted.slice(0, -1).join(", ")} or ${wanted.at(-1)}.`);
}

function parseNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) {
    throw new InvalidArgumentError("Wanted a number.");
  }
  return value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError("Wanted JSON.");
  }
}

/** A flag that is given several times: `--stop a --stop b`. */
export function appendText(text: string, previous: unknown): unknown[] {
  return [...(Array.isArray(previous) ? previous : []), text];
}

/** The same for numbers, which may also stand in one list: `--stop-token-ids 1,2`. */
function appendNumbers(text: string, previous: unknown): unknown[] {
  return [...(Array.isArray(previous) ? previous : []), ...text.split(",").map(parseNumber)];
}
