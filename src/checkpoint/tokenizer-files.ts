import { existsSync } from "node:fs";
import { join } from "node:path";
import type { TokenizerFiles } from "./checkpoint.ts";
import { invalidFile } from "./invalid-file.ts";
import { type JsonObject, readJsonObject, readTextFile } from "./json-text.ts";
import { readSentenceText } from "./sentence-files.ts";

/** Whether `readTokenizerFiles` finds a tokenizer. */
export function hasTokenizer(directory: string): boolean {
  return existsSync(join(directory, "tokenizer.json"));
}

/** The tokenizer of a Hugging Face directory. Null if it has no tokenizer.json. */
export function readTokenizerFiles(directory: string): TokenizerFiles | null {
  const tokenizerJson = readJsonObject(join(directory, "tokenizer.json"));
  if (tokenizerJson === null) return null;
  const isLowered = readSentenceText(directory)?.do_lower_case === true;
  const configPath = join(directory, "tokenizer_config.json");
  const config = readJsonObject(configPath);
  const special = readJsonObject(join(directory, "special_tokens_map.json"));
  return {
    tokenizerJson: isLowered ? lowered(tokenizerJson) : tokenizerJson,
    tokenizerConfig: config === null && special === null ? null : { ...special, ...config },
    chatTemplate:
      readTextFile(join(directory, "chat_template.jinja")) ?? templateIn(config ?? {}, configPath),
  };
}

/**
 * The same tokenizer with lower-casing first, as sentence-transformers builds it where
 * `do_lower_case` is set, whatever the tokenizer itself does afterwards.
 */
function lowered(tokenizerJson: JsonObject): JsonObject {
  const { normalizer } = tokenizerJson;
  const normalizers = [{ type: "Lowercase" }, ...(normalizer ? [normalizer] : [])];
  return { ...tokenizerJson, normalizer: { type: "Sequence", normalizers } };
}

/** `chat_template` is a string, or a list of { name, template } with one called `default`. */
function templateIn(config: JsonObject, path: string): string | null {
  const value = config.chat_template ?? null;
  if (value === null || typeof value === "string") return value;
  const named = Array.isArray(value) ? value.filter(isNamedTemplate) : [];
  const chosen = named.find((item) => item.name === "default") ?? named[0];
  if (chosen === undefined) {
    const must = "must be a string or a list of { name, template }";
    throw invalidFile({ path, field: "chat_template", must, actual: value });
  }
  return chosen.template;
}

interface NamedTemplate {
  readonly name: string;
  readonly template: string;
}

function isNamedTemplate(value: unknown): value is NamedTemplate {
  if (typeof value !== "object" || value === null) return false;
  const { name, template } = value as Readonly<Record<string, unknown>>;
  return typeof name === "string" && typeof template === "string";
}
