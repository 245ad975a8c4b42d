import { existsSync } from "node:fs";
import { InvalidArgumentError, Option } from "commander";
import { EngineError } from "#base";
import { bytesOfText, isSizeFlag, sizeProblem } from "./byte-size.ts";

/** The subset of JSON Schema that the settings use. */
export interface FieldSchema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly FieldSchema[];
  readonly description?: string;
  readonly default?: unknown;
  readonly items?: FieldSchema;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
}

/** The command line's word for null. */
const NONE = "none";
/** The value for `none`: commander has no null, and the text may be a choice. */
export const NO_VALUE: unique symbol = Symbol(NONE);

type Parse = (text: string, previous: unknown) => unknown;

/** A flag that was made of a schema, which says more than the flag. */
export class SettingOption extends Option {
  readonly schema: FieldSchema;

  constructor(flags: string, description: string, schema: FieldSchema) {
    super(flags, description);
    this.schema = schema;
  }
}

/** One field as a flag: placeholder, parser and help text. */
export function flagOption(flag: string, schema: FieldSchema): SettingOption {
  const kinds = kindsOf(schema);
  const help = helpOf(schema);
  if (kinds.some(({ type }) => type === "boolean")) {
    return new SwitchOption(flag, { help, words: wordsOf(kinds), schema });
  }
  const kind = kinds.find(({ type }) => type === "array") ?? kinds[0] ?? {};
  const isChoice = kind.enum?.includes(NONE) === true;
  const nullable = kinds.some(({ type }) => type === "null") && !isChoice;
  const isSize = isSizeFlag(flag) && isNumeric(kind);
  const parse = isSize ? parseSize : parserOf(kind);
  const placeholder = isSize ? "size" : placeholderOf(kind);
  const shown = help + choicesOf(kind);
  const option = new SettingOption(`--${flag} <${placeholder}>`, shown, schema);
  option.argParser((text: string, previous: unknown) =>
    nullable && text === NONE ? NO_VALUE : parse(text, previous),
  );
  return option;
}

const ON = ["on", "true", "1"];
const OFF = ["off", "false", "0"];

/** A flag such as `--ignore-eos`: alone, with `on`, with `off`, or with a word of its own. */
export class SwitchOption extends SettingOption {
  /** The values that may follow the flag. */
  readonly values: readonly string[];

  constructor(
    flag: string,
    parts: {
      readonly help: string;
      readonly words: readonly string[];
      readonly schema: FieldSchema;
    },
  ) {
    const { help, words, schema } = parts;
    super(`--${flag} [${["on", "off", ...words].join("|")}]`, help, schema);
    this.values = [...ON, ...OFF, ...words];
    this.argParser((text: string) => (words.includes(text) ? text : parseSwitch(text, words)));
  }
}

/** The values of a switch other than true and false. */
function wordsOf(kinds: readonly FieldSchema[]): string[] {
  return kinds.flatMap((kind) => (typeof kind.const === "string" ? [kind.const] : []));
}

/**
 * The words of a command line, with `=on` appended to each switch that no value follows: commander
 * would parse `models/pocket` in `--ignore-eos models/pocket` as the switch's value. Throws
 * INVALID_ARGUMENT for a word that is neither a value nor a model according to `mayBeModel`.
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

/** Whether the word is an existing path, or may be a path or a repository of the hub. */
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

/** A schema's alternatives, flattened; a list of types becomes one alternative per type. */
export function kindsOf(schema: FieldSchema): FieldSchema[] {
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap(kindsOf);
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
  return types.map((type) => ({ ...schema, type }));
}

/** The help text; `null: all cores` becomes `default: all cores` if null is the default. */
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

/** Longer lists of choices follow the help text instead of being the placeholder. */
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

/** Whether values of the schema are numbers. */
export function isNumeric(items: FieldSchema | undefined): boolean {
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

/** Bytes with a unit or without. */
function parseSize(text: string): number {
  const bytes = bytesOfText(text);
  if (bytes === null) throw new InvalidArgumentError(sizeProblem(text));
  return bytes;
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

/** The same for numbers, which may also be one list: `--stop-token-ids 1,2`. */
function appendNumbers(text: string, previous: unknown): unknown[] {
  return [...(Array.isArray(previous) ? previous : []), ...text.split(",").map(parseNumber)];
}
