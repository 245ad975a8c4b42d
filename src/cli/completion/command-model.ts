/** The commands as shells and manuals describe them, read from commander's declarations. */
import type { Command, Option } from "commander";
import {
  type FieldSchema,
  isNumeric,
  kindsOf,
  SettingOption,
  SwitchOption,
} from "../flag-option.ts";

/** What may follow a flag. */
export type FlagValue =
  /** A switch that takes nothing. */
  | { readonly kind: "none" }
  /** One of these, which may be left out where `optional`. */
  | { readonly kind: "words"; readonly words: readonly string[]; readonly optional: boolean }
  /** A text: perhaps a file. */
  | { readonly kind: "text" }
  | { readonly kind: "number" };

export interface FlagModel {
  /** With its dashes. */
  readonly long: string;
  /** `-p`; null: it has no short form. */
  readonly short: string | null;
  /** `--port <n>`. */
  readonly usage: string;
  readonly description: string;
  /** The heading in `--help`; null: Options. */
  readonly group: string | null;
  readonly value: FlagValue;
}

export interface CommandModel {
  /** `["bench", "serve"]`; the program's own is empty. */
  readonly path: readonly string[];
  readonly description: string;
  readonly flags: readonly FlagModel[];
  /** E.g. `[model]`, with what it means. */
  readonly arguments: readonly { readonly usage: string; readonly description: string }[];
  readonly children: readonly CommandModel[];
}

const HELP: FlagModel = {
  long: "--help",
  short: "-h",
  usage: "-h, --help",
  description: "Print help.",
  group: null,
  value: { kind: "none" },
};

/** The program's commands. `root` has those with their flags. */
export function commandModel(root: Command, path: readonly string[] = []): CommandModel {
  return {
    path,
    description: root.description(),
    flags: [...root.options.filter(({ hidden }) => !hidden).map(flagModel), HELP],
    arguments: root.registeredArguments.map((argument) => ({
      usage: argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
      description: argument.description,
    })),
    children: root.commands.map((child) => commandModel(child, [...path, child.name()])),
  };
}

/** The command and all below it. */
export function* everyCommand(model: CommandModel): Generator<CommandModel> {
  yield model;
  for (const child of model.children) yield* everyCommand(child);
}

function flagModel(option: Option): FlagModel {
  return {
    long: option.long ?? option.flags,
    short: option.short ?? null,
    usage: option.flags,
    description: option.description + defaultText(option),
    group: option.helpGroupHeading?.replace(/:$/, "") ?? null,
    value: flagValue(option),
  };
}

/** Flags without a schema: theirs say their default themselves. */
function defaultText(option: Option): string {
  const { defaultValue, defaultValueDescription } = option;
  if (option instanceof SettingOption || defaultValue === undefined) return "";
  return ` (default: ${defaultValueDescription ?? String(defaultValue)})`;
}

function flagValue(option: Option): FlagValue {
  if (option instanceof SwitchOption) {
    const words = ["on", "off", ...option.values.filter((word) => !SWITCH_WORDS.has(word))];
    return { kind: "words", words, optional: true };
  }
  if (!option.required && !option.optional) return { kind: "none" };
  if (option.argChoices !== undefined) {
    return { kind: "words", words: option.argChoices, optional: option.optional };
  }
  if (!(option instanceof SettingOption)) {
    return /<(n|ms|size)>/.test(option.flags) ? { kind: "number" } : { kind: "text" };
  }
  return valueOfSchema(option.schema);
}

const SWITCH_WORDS = new Set(["on", "true", "1", "off", "false", "0"]);

function valueOfSchema(schema: FieldSchema): FlagValue {
  const kinds = kindsOf(schema);
  const words = kinds.flatMap(({ enum: choices = [] }) => choices.map(String));
  const none = kinds.some(({ type }) => type === "null") && !words.includes("none") ? ["none"] : [];
  if (words.length > 0) return { kind: "words", words: [...words, ...none], optional: false };
  return kinds.some(isNumeric) ? { kind: "number" } : { kind: "text" };
}
