import type { Command } from "commander";
import { z } from "zod";
import { describeIssue, EngineError, issueText, type SettingProblem } from "#base";
import { type FieldSchema, flagOption, NO_VALUE } from "./flag-option.ts";

/**
 * Command-line flags generated from zod schemas, so that a field, its default, its help and its
 * check are defined once. `scheduler.stepTokensMax` becomes `--step-tokens-max`.
 */

/** One field of a schema, and its flag without the dashes. */
interface Field {
  readonly path: readonly string[];
  readonly flag: string;
  readonly schema: FieldSchema;
}

/** Flags by dotted path, e.g. `kvCache.poolBytes`. */
export interface FlagOptions {
  /** Groups whose name is a part of their flags: `grammar.nestingMax`, `--grammar-nesting-max`. */
  readonly prefixed?: readonly string[];
  /** Flag names for fields whose own name would clash or mislead; null: no flag. */
  readonly rename?: Readonly<Record<string, string | null>>;
  /** Defaults that replace the schema's on the command line. */
  readonly defaults?: Readonly<Record<string, unknown>>;
  /** Help texts that replace the schema's. */
  readonly help?: Readonly<Record<string, string>>;
}

/** A command line as parsed by commander. */
export type FlagValues = Readonly<Record<string, unknown>>;

const schemasByCommand = new WeakMap<Command, SchemaFlags[]>();

/** The schemas whose flags a command has. */
export function schemasOf(command: Command): readonly SchemaFlags[] {
  return schemasByCommand.get(command) ?? [];
}

/** One schema's flags on a command. */
export class SchemaFlags {
  readonly #schema: z.ZodType;
  readonly #fields: readonly Field[];
  readonly #names: ReadonlySet<string>;
  readonly #options: FlagOptions;

  constructor(schema: z.ZodType, options: FlagOptions = {}) {
    this.#schema = schema;
    this.#options = options;
    // The cast restricts JSON Schema to the subset that the settings use.
    const json = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as FieldSchema;
    this.#names = new Set(Object.keys(json.properties ?? {}));
    this.#fields = [...fieldsOf(json, [], options)];
  }

  /**
   * Adds every flag, under a heading in `--help`. `own`: defaults that the command itself uses, to
   * be told instead of the schema's.
   */
  addTo(command: Command, heading: string, own: Readonly<Record<string, unknown>> = {}): void {
    schemasByCommand.set(command, [...schemasOf(command), this]);
    const { help = {} } = this.#options;
    const defaults = { ...this.#options.defaults, ...own };
    for (const { path, flag, schema } of this.#fields) {
      const name = path.join(".");
      const description = this.withFlags(schema.description ?? "");
      const shown = { ...schema, description, default: defaults[name] ?? schema.default };
      const option = flagOption(flag, shown).helpGroup(heading);
      option.description = help[name] ?? option.description;
      command.addOption(option);
    }
  }

  /** The given settings and the command line's defaults, for `schema.parse`. */
  collect(values: FlagValues): Record<string, unknown> {
    const settings: Record<string, unknown> = {};
    for (const { path, flag } of this.#fields) {
      const value = values[attributeName(flag)] ?? this.#options.defaults?.[path.join(".")];
      if (value !== undefined) assign(settings, path, value === NO_VALUE ? null : value);
    }
    return settings;
  }

  /** Checks the settings. Throws INVALID_ARGUMENT naming the flag. */
  check(values: FlagValues): void {
    const found = this.#problemOf(this.collect(values));
    if (found === null) return;
    const path = found.param.split(".");
    const field = this.#fields.find((known) => isPrefix(known.path, path));
    const param = field === undefined ? found.param : `--${field.flag}`;
    // A field inside a flag's JSON; a bare list index is left out of the message.
    const inside = path.slice(field?.path.length ?? path.length).join(".");
    const subject = /^\d*$/.test(inside) ? "" : `${inside} `;
    const problem = `${subject}${this.withFlags(found.text)}`;
    const message = `Cannot use ${param || "these flags"}: ${problem}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param });
  }

  /** Whether the schema has this field, with or without a flag. */
  has(name: string): boolean {
    return this.#names.has(name);
  }

  /** The first problem of the command line's settings combined with `settings`; null: none. */
  findProblem(values: FlagValues, settings: Record<string, unknown>): SettingProblem | null {
    return this.#problemOf({ ...this.collect(values), ...settings });
  }

  /** `runningSequencesMax` or `kvCache.poolBytes` in a sentence becomes its flag. */
  withFlags(text: string): string {
    return text.replace(/\b(?:[a-z]\w*\.)*[a-z]+[A-Z]\w*\b/g, (word) => {
      const field = this.#fields.find(
        ({ path }) => path.join(".") === word || path.at(-1) === word,
      );
      return field === undefined ? word : `--${field.flag}`;
    });
  }

  #problemOf(settings: Record<string, unknown>): SettingProblem | null {
    const result = this.#schema.safeParse(settings, { error: issueText });
    return result.success ? null : describeIssue(result.error.issues[0] ?? {}, settings);
  }
}

function* fieldsOf(
  schema: FieldSchema,
  path: readonly string[],
  options: Pick<FlagOptions, "rename" | "prefixed">,
): Generator<Field> {
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const here = [...path, name];
    const given = options.rename?.[here.join(".")];
    if (given === null) continue;
    if (field.properties !== undefined) {
      yield* fieldsOf(field, here, options);
      continue;
    }
    const [group = ""] = path;
    const own =
      options.prefixed?.includes(group) === true ? `${group}-${kebab(name)}` : kebab(name);
    yield { path: here, flag: given ?? own, schema: field };
  }
}

function isPrefix(path: readonly string[], longer: readonly string[]): boolean {
  return path.every((name, place) => longer[place] === name);
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

/** The name under which commander stores a flag's value. */
function attributeName(flag: string): string {
  return flag.replace(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The same failure, with flag names instead of setting names. */
export function inFlags(thrown: unknown, ...known: readonly SchemaFlags[]): unknown {
  if (!(thrown instanceof EngineError)) return thrown;
  const rename = (text: string) => known.reduce((said, flags) => flags.withFlags(said), text);
  const message = rename(thrown.message);
  if (message === thrown.message) return thrown;
  const param = thrown.param === null ? {} : { param: rename(thrown.param) };
  return new EngineError(thrown.code, message, { cause: thrown, ...param });
}
