/** Reads tokenizer.json's `decoder` into stages (`decoder-stages.ts`). */
import { EngineError, messageOf, shortText, valueText } from "#base";
import {
  ByteFallbackStage,
  ByteLevelStage,
  MapStage,
  type Stage,
  type StripOptions,
  StripTextStage,
  SuffixStage,
} from "./decoder-stages.ts";

/**
 * Bounds on what a decoder may do to one token: a chain of replacements by longer texts would grow
 * it without end. Tokens of real vocabularies have some hundred characters at most.
 */
const tokenCharsMax = 65_536;
const patternTokenCharsMax = 1024;
const contentCharsMax = 1024;
const stagesMax = 64;
const nestingMax = 8;

/** Strips the start and the end of one token. */
function stripToken(text: string, { content, start, stop }: StripOptions): string {
  let from = 0;
  let to = text.length;
  while (from < start && from < to && text[from] === content) from++;
  while (text.length - to < stop && to > from && text[to - 1] === content) to--;
  return text.slice(from, to);
}

/** Hugging Face's clean-up of one WordPiece token: no space before punctuation and clitics. */
function cleanUp(text: string): string {
  return text
    .replaceAll(/ (?=[.?!,])/g, "")
    .replaceAll(" ' ", "'")
    .replaceAll(/ (?=n't|'m|'s|'ve|'re)/g, "");
}

/** The fields of tokenizer.json's decoder that are read here. */
interface DecoderConfig {
  readonly type: string;
  readonly decoders?: readonly DecoderConfig[];
  readonly prefix?: string;
  readonly cleanup?: boolean;
  readonly suffix?: string;
  readonly replacement?: string;
  readonly prepend_scheme?: string;
  readonly add_prefix_space?: boolean;
  readonly pattern?: { readonly String?: string; readonly Regex?: string };
  readonly content?: string;
  readonly start?: number;
  readonly stop?: number;
}

function unsupported(what: string): EngineError {
  return new EngineError(
    "TOKENIZER_INVALID",
    `Cannot decode with this tokenizer: its decoder must be one that streams, ${what} is not`,
    { param: "decoder" },
  );
}

function metaspaceStage(config: DecoderConfig): Stage {
  const replacement = config.replacement ?? "▁";
  const prepends = (config.prepend_scheme ?? "always") !== "never";
  const drops = prepends && config.add_prefix_space !== false;
  return new MapStage((text, first) => text.replaceAll(replacement, first && drops ? "" : " "));
}

function replaceStage(config: DecoderConfig, fused: boolean): Stage {
  const { String: literal, Regex: source } = config.pattern ?? {};
  const pattern = literal ?? regularExpression(source ?? "(?!)");
  const isLiteral = typeof pattern === "string";
  if (fused && (!isLiteral || pattern.length > 1)) {
    throw unsupported("a replacement of longer patterns after Fuse");
  }
  const content = config.content ?? "";
  if (content.length > contentCharsMax) {
    throw unsupported(`a replacement by ${content.length} characters`);
  }
  const most = isLiteral ? tokenCharsMax : patternTokenCharsMax;
  return new MapStage((text) => {
    if (text.length <= most) return text.replaceAll(pattern, () => content);
    throw unsupported(`a replacement in a token of ${text.length} characters (at most ${most})`);
  });
}

/**
 * Decoding has no deadline, so a pattern must be fast for any token. With one choice (a repetition
 * of variable length, or alternatives in a group), and without repeated groups and back references,
 * a search takes at most quadratic time, and tokens that are searched have a limited length.
 */
function regularExpression(source: string): RegExp {
  const plain = source.replaceAll(/\\.|\[(?:\\.|[^\]\\])*\]/gs, "x");
  const repetitions = plain.match(/[*+]\??|(?<!\()\?|\{\d+,\d*\}\??/g)?.length ?? 0;
  const alternatives = /\(.*\|/s.test(plain) ? 1 : 0;
  const several = plain.match(/\|/g)?.length ?? 0;
  const choices = repetitions + alternatives * several;
  if (choices > 1 || /\)[*+?{]/.test(plain) || /\\[1-9k]/.test(source)) {
    throw unsupported(`a replacement of ${shortText(source)}, which may take without end,`);
  }
  try {
    return new RegExp(source, "gu");
  } catch (error) {
    throw unsupported(`a replacement of ${shortText(source)} (${messageOf(error)})`);
  }
}

function wordPieceStage(config: DecoderConfig): Stage {
  const prefix = config.prefix ?? "##";
  const cleans = config.cleanup ?? true;
  return new MapStage((text, first) => {
    const continues = !first && prefix !== "" && text.startsWith(prefix);
    const spaced = continues ? text.slice(prefix.length) : first ? text : ` ${text}`;
    return cleans ? cleanUp(spaced) : spaced;
  });
}

/** Stages of one decoder. `fused`: after a Fuse, so token boundaries no longer exist. */
function stagesOf(config: DecoderConfig, fused: boolean): Stage[] {
  const strip = {
    content: config.content ?? " ",
    start: config.start ?? 0,
    stop: config.stop ?? 0,
  };
  switch (config.type) {
    case "ByteLevel":
      return [new ByteLevelStage()];
    case "ByteFallback":
      return [new ByteFallbackStage()];
    case "WordPiece":
      return [wordPieceStage(config)];
    case "Metaspace":
      return [metaspaceStage(config)];
    case "BPEDecoder":
      return [new SuffixStage(config.suffix ?? "</w>")];
    case "Replace":
      return [replaceStage(config, fused)];
    case "Strip":
      if (strip.content.length !== 1) throw unsupported("one that strips no single character");
      return [fused ? new StripTextStage(strip) : new MapStage((text) => stripToken(text, strip))];
    case "Fuse":
      return [];
    case "Sequence":
      return sequenceStages(config.decoders ?? []);
    default:
      throw unsupported(valueText(config.type));
  }
}

const TEXTS = ["prefix", "suffix", "replacement", "prepend_scheme", "content"];
const FIELD_TYPES: ReadonlyMap<string, string> = new Map([
  ...TEXTS.map((field): [string, string] => [field, "string"]),
  ...["cleanup", "add_prefix_space"].map((field): [string, string] => [field, "boolean"]),
  ...["start", "stop"].map((field): [string, string] => [field, "number"]),
  ["pattern", "object"],
]);

/** Checks the field types of a decoder and its nested decoders. Throws TOKENIZER_INVALID. */
function checked(value: unknown, depth = 0): DecoderConfig {
  if (depth > nestingMax) throw unsupported(`one that nests ${depth} levels deep`);
  if (typeof value !== "object" || value === null) throw unsupported(valueText(value));
  for (const [field, type] of FIELD_TYPES) {
    const found: unknown = Reflect.get(value, field);
    const isRight = found === undefined || found === null || typeof found === type;
    if (!isRight) throw unsupported(`one whose ${field} is ${valueText(found)}`);
  }
  for (const part of Object.values(Reflect.get(value, "pattern") ?? {})) {
    if (typeof part !== "string") throw unsupported(`one whose pattern is ${valueText(part)}`);
  }
  const decoders: unknown = Reflect.get(value, "decoders") ?? [];
  if (!Array.isArray(decoders)) throw unsupported(`one whose decoders are ${valueText(decoders)}`);
  for (const decoder of decoders) checked(decoder, depth + 1);
  return value as DecoderConfig; // The type of every field that is read was checked above.
}

function sequenceStages(configs: readonly DecoderConfig[]): Stage[] {
  const fuse = configs.findIndex((config) => config.type === "Fuse");
  return configs.flatMap((config, i) => stagesOf(config, fuse >= 0 && i > fuse));
}

/**
 * The stages of tokenizer.json's `decoder`, to be forked for each stream. Without a decoder, tokens
 * are joined by spaces, as in Hugging Face's libraries. Throws TOKENIZER_INVALID for a decoder that
 * cannot be streamed.
 */
export function createStages(decoder: unknown): Stage[] {
  if (decoder === null || decoder === undefined) {
    return [new MapStage((text, first) => (first ? text : ` ${text}`))];
  }
  const stages = stagesOf(checked(decoder), false);
  if (stages.length > stagesMax) throw unsupported(`a chain of ${stages.length} decoders`);
  return stages;
}
