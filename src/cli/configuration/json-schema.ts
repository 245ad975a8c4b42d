/** The JSON Schema of a file of settings, made from the flags of all commands: editors read it. */
import type { Command, Option } from "commander";
import { isSizeFlag } from "../byte-size.ts";
import { type FieldSchema, kindsOf, SettingOption, SwitchOption } from "../flag-option.ts";
import { keysOf, MODEL_KEY, sectionsOf, settingsOf, withDescendants } from "./command-path.ts";
import { kindOfPlain } from "./flag-value.ts";

/** The parts of JSON Schema (draft 2020-12) that are written. */
export interface JsonSchema {
  readonly $schema?: string;
  readonly $ref?: string;
  readonly title?: string;
  readonly description?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly items?: JsonSchema;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties?: boolean;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
}

const SIZE_PATTERN = "^[0-9]+(\\.[0-9]+)? ?([KMGT]i?)?B$";
const MODEL: JsonSchema = {
  type: "string",
  description:
    "The model: a directory, a .gguf file or the Hugging Face id of a downloaded model; as the " +
    "argument of commands that take one.",
};

/** The schema of `perigee.yaml`. `root` has all commands with their flags. */
export function configurationSchema(root: Command): JsonSchema {
  const definitions = new Definitions();
  const top = section(root, definitions);
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "perigee.yaml",
    ...top,
    description:
      "Settings of Perigee's commands. Keys are flags without dashes; those of one command " +
      "stand below its name, and win over the same key above.",
    $defs: definitions.all(),
  };
}

function section(command: Command, definitions: Definitions): JsonSchema {
  const properties: Record<string, JsonSchema> = {};
  for (const each of withDescendants(command)) {
    for (const [key, option] of settingsOf(each)) {
      const found = definitions.refer(key, settingSchema(key, option));
      const known = properties[key];
      properties[key] = known === undefined ? found : either(known, found);
    }
    if (keysOf(each).has(MODEL_KEY) && properties[MODEL_KEY] === undefined) {
      properties[MODEL_KEY] = definitions.refer(MODEL_KEY, MODEL);
    }
  }
  for (const [name, child] of sectionsOf(command)) {
    const description = `Settings of this command alone. ${child.description()}`;
    properties[name] = { ...section(child, definitions), description };
  }
  return { type: "object", properties, additionalProperties: false };
}

/** A key above sections is any of what commands take under its name. */
function either(one: JsonSchema, other: JsonSchema): JsonSchema {
  const known = one.anyOf ?? [one];
  return known.some((each) => each.$ref === other.$ref) ? one : { anyOf: [...known, other] };
}

/** Schemas that several commands share, each written once. */
class Definitions {
  readonly #names = new Map<string, string>();
  readonly #all: Record<string, JsonSchema> = {};

  refer(key: string, schema: JsonSchema): JsonSchema {
    const text = JSON.stringify(schema);
    let name = this.#names.get(`${key} ${text}`);
    if (name === undefined) {
      name = key;
      for (let count = 2; this.#all[name] !== undefined; count++) name = `${key}-${count}`;
      this.#names.set(`${key} ${text}`, name);
      this.#all[name] = schema;
    }
    return { $ref: `#/$defs/${name}` };
  }

  all(): Readonly<Record<string, JsonSchema>> {
    const names = Object.keys(this.#all).sort();
    return Object.fromEntries(names.map((name) => [name, this.#all[name] ?? {}]));
  }
}

/** What a file may give to a flag. */
export function settingSchema(key: string, option: Option): JsonSchema {
  const { description } = option;
  if (option instanceof SettingOption) {
    return { description, ...fileForm(key, option) };
  }
  const { argChoices } = option;
  if (argChoices !== undefined) return { description, enum: argChoices };
  switch (kindOfPlain(option)) {
    case "switch":
      return { description, type: "boolean" };
    case "number":
      return { description, type: "number" };
    default:
      return { description, anyOf: [{ type: "string" }, { type: "number" }, listOf("string")] };
  }
}

function listOf(type: string): JsonSchema {
  return { type: "array", items: { type } };
}

function fileForm(key: string, option: SettingOption): JsonSchema {
  const { description, default: fallback, ...schema } = option.schema;
  const kinds = kindsOf(schema);
  const isNumber = kinds.some(({ type }) => type === "integer" || type === "number");
  if (isSizeFlag(key) && isNumber) {
    return { anyOf: [schema as JsonSchema, { type: "string", pattern: SIZE_PATTERN }] };
  }
  if (option instanceof SwitchOption) {
    return { anyOf: [schema as JsonSchema, { enum: option.values }] };
  }
  const list = kinds.find(({ type }) => type === "array");
  return list === undefined ? (schema as JsonSchema) : withOneItem(schema, list);
}

/** A list of one may be written without its brackets. */
function withOneItem(schema: FieldSchema, { items = {} }: FieldSchema): JsonSchema {
  return { anyOf: [schema as JsonSchema, items as JsonSchema] };
}
