import { type Command, InvalidArgumentError, Option } from "commander";
import { z } from "zod";
import { EngineError } from "#base";

/**
 * Command-line flags made from zod schemas, so that a field, its default, its help and its check
 * are written once. `scheduler.stepTokensMax` becomes `--step-tokens-max`.
 */

/** The part of JSON Schema that our settings use. */
interface FieldSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly FieldSchema[];
  readonly description?: string;
  readonly default?: unknown;
  readonly items?: FieldSchema;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
}

interface Field {
  readonly path: readonly string[];
  readonly flag: string;
  readonly schema: FieldSchema;
}

export interface FlagOptions {
  /** Names for fields whose own name would clash or mislead, by dotted path; null: no flag. */
  readonly rename?: Readonly<Record<string, string | null>>;
}

/** One schema's flags on a command. */
export class SchemaFlags {
  readonly #schema: z.ZodType;
  readonly #fields: readonly Field[];

  constructor(schema: z.ZodType, options: FlagOptions = {}) {
    this.#schema = schema;
    const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as FieldSchema;
    this.#fields = [...fieldsOf(json, [], options.rename ?? {})];
  }

  /** Adds every flag, under a heading in `--help`. */
  addTo(command: Command, heading: string): void {
    for (const field of this.#fields) command.addOption(optionFor(field).helpGroup(heading));
  }

  /** The settings as given, without defaults: for `schema.parse`. */
  collect(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
    const settings: Record<string, unknown> = {};
    for (const { path, flag } of this.#fields) {
      const value = values[attributeName(flag)];
      if (value !== undefined) assign(settings, path, value);
    }
    return settings;
  }

  /** Checked settings, defaults filled in. Throws INVALID_ARGUMENT naming the flag. */
  parse(values: Readonly<Record<string, unknown>>): unknown {
    const result = this.#schema.safeParse(this.collect(values));
    if (result.success) return result.data;
    const [issue] = result.error.issues;
    const path = issue?.path.map(String) ?? [];
    const field = this.#fields.find((known) => known.path.join(".") === path.join("."));
    const name = field === undefined ? path.join(".") : `--${field.flag}`;
    const current = field === undefined ? undefined : values[attributeName(field.flag)];
    const shown = current === undefined ? "" : `, current value is ${String(current)}`;
    throw new EngineError("INVALID_ARGUMENT", `Cannot use ${name}: ${issue?.message}${shown}`, {
      param: name,
    });
  }
}

function* fieldsOf(
  schema: FieldSchema,
  path: readonly string[],
  rename: Readonly<Record<string, string | null>>,
): Generator<Field> {
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const here = [...path, name];
    const given = rename[here.join(".")];
    if (given === null) continue;
    if (field.properties !== undefined) yield* fieldsOf(field, here, rename);
    else yield { path: here, flag: given ?? kebab(name), schema: field };
  }
}

function optionFor({ flag, schema }: Field): Option {
  const choices = schema.anyOf?.filter((option) => option.type !== "null") ?? [];
  const plain = choices.find((option) => option.type === "array") ?? choices[0] ?? schema;
  const defaultText =
    schema.default === undefined || schema.default === null
      ? ""
      : ` (default: ${JSON.stringify(schema.default)})`;
  const help = `${schema.description ?? ""}${defaultText}`.trim();
  if (plain.type === "boolean") {
    return new Option(`--${flag} [on|off]`, help).preset(true).argParser(parseSwitch);
  }
  const option = new Option(`--${flag} <${placeholder(plain)}>`, help);
  if (plain.enum !== undefined) return option.choices(plain.enum.map(String));
  if (plain.type === "integer" || plain.type === "number") return option.argParser(parseNumber);
  if (plain.type === "array") return option.argParser(appender(plain.items?.type ?? "string"));
  if (plain.type === "object") return option.argParser(parseJson);
  return option;
}

function placeholder(schema: FieldSchema): string {
  if (schema.enum !== undefined) return "choice";
  if (schema.type === "integer" || schema.type === "number") return "n";
  if (schema.type === "object") return "json";
  return "text";
}

function parseSwitch(text: string): boolean {
  if (["on", "true", "1"].includes(text)) return true;
  if (["off", "false", "0"].includes(text)) return false;
  throw new InvalidArgumentError("Wanted on or off.");
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

/** Collects a flag that is given several times: `--stop a --stop b`. */
function appender(type: string): (text: string, previous: unknown) => unknown[] {
  const parse = type === "integer" || type === "number" ? parseNumber : (text: string) => text;
  return (text, previous) => [...(Array.isArray(previous) ? previous : []), parse(text)];
}

function assign(target: Record<string, unknown>, path: readonly string[], value: unknown): void {
  const [head = "", ...rest] = path;
  if (rest.length === 0) {
    target[head] = value;
    return;
  }
  const inner = (target[head] ?? {}) as Record<string, unknown>; // made by this function only
  target[head] = inner;
  assign(inner, rest, value);
}

function kebab(name: string): string {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1-$2").toLowerCase();
}

/** The name commander stores a flag's value under. */
function attributeName(flag: string): string {
  return flag.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
