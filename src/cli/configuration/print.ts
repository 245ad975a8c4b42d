/** `--print-config`: the settings of a command as a file, each with where it comes from. */
import type { Command } from "commander";
import { stringify } from "yaml";
import { isSizeFlag, sizeText } from "../byte-size.ts";
import { NO_VALUE, SettingOption } from "../flag-option.ts";
import { plainText } from "../terminal-text.ts";
import type { Source, Sources } from "./apply.ts";
import { MODEL_KEY, modelArgument, nameOf, pathTo, settingsOf } from "./command-path.ts";

/** Values that other users of the machine, or readers of a log, must not see. */
const SECRETS = new Set(["api-key", "hub-token"]);

/** The text of a file that `--config` reads; settings with their default are comments. */
export function configurationText(command: Command, sources: Sources): string {
  const path = pathTo(command).slice(1);
  const indent = "  ".repeat(path.length);
  const head = [
    `# The settings of ${nameOf(command)}: a file for --config.`,
    ...path.map((each, depth) => `${"  ".repeat(depth)}${each.name()}:`),
  ];
  const lines = settingLines(command, sources);
  const given = lines.filter(({ isDefault }) => !isDefault);
  const rest = lines.filter(({ isDefault }) => isDefault);
  const body = [
    ...(given.length === 0 ? ["{}"] : given.map(({ text }) => text)),
    ...(rest.length === 0 ? [] : ["# Defaults:", ...rest.map(({ text }) => `# ${text}`)]),
  ];
  return `${[...head, ...body.map((line) => `${indent}${line}`)].join("\n")}\n`;
}

interface SettingLine {
  readonly text: string;
  readonly isDefault: boolean;
}

function settingLines(command: Command, sources: Sources): readonly SettingLine[] {
  const values = command.opts();
  const lines: SettingLine[] = [];
  const model = modelArgument(command);
  if (model !== null) {
    const place = command.registeredArguments.indexOf(model);
    lines.push(lineOf(MODEL_KEY, command.processedArgs[place], sources.get(MODEL_KEY)));
  }
  for (const [key, option] of settingsOf(command)) {
    const given = values[option.attributeName()];
    const fallback = option instanceof SettingOption ? option.schema.default : option.defaultValue;
    lines.push(lineOf(key, given ?? fallback, sources.get(key)));
  }
  return lines;
}

function lineOf(key: string, value: unknown, source: Source | undefined): SettingLine {
  const isSecret = SECRETS.has(key) && source !== undefined;
  if (isSecret) return { text: `# ${key}: not printed  # ${sourceText(source)}`, isDefault: false };
  const text = `${key}: ${valueText(key, value)}`;
  if (source === undefined) return { text, isDefault: true };
  return { text: `${text}  # ${sourceText(source)}`, isDefault: false };
}

function sourceText(source: Source): string {
  if (source.kind === "flag") return "flag";
  if (source.kind === "environment") return source.variable;
  return plainText(`${source.file}, line ${source.place.line}`);
}

/** One line of YAML. */
function valueText(key: string, value: unknown): string {
  if (value === undefined || value === null || value === NO_VALUE) return "null";
  if (typeof value === "number" && isSizeFlag(key)) return sizeText(value);
  // JSON is YAML; a bare word reads better where it means the same.
  const json = JSON.stringify(value, (_, part: unknown) => {
    if (part === Number.POSITIVE_INFINITY) return "inf";
    return typeof part === "string" ? withoutPassword(part) : part;
  });
  if (typeof value !== "string") return json;
  const bare = stringify(withoutPassword(value), { lineWidth: 0 }).trimEnd();
  return bare.includes("\n") ? json : bare;
}

/** `redis://:password@host` without the password. */
function withoutPassword(text: string): string {
  return text.replace(/^([a-z][a-z0-9+.-]*:\/\/[^/@\s]*:)[^/@\s]+@/i, "$1...@");
}
