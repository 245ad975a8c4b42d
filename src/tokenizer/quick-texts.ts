/** Tells whether a short text is encoded in a short time, whatever the text is. */
import { byteLevelWords, isObject, type Json } from "./tokenizer-files.ts";

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const SHORT_CONTRACTIONS = "'(?:[sdmtSDMT]|[lL][lL]|[vV][eE]|[rR][eE])";
const WORDS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** Patterns of widely used models: a search takes time linear in the text, or nearly so. */
const QUICK_PATTERNS: ReadonlySet<string> = new Set([
  "\\p{N}",
  "\\p{N}{1,3}",
  byteLevelWords,
  // Llama 3, Qwen 2 and 3, and both with the contractions written out
  ...[CONTRACTIONS, SHORT_CONTRACTIONS].flatMap((contractions) =>
    ["\\p{N}", "\\p{N}{1,3}"].map((digits) => `${contractions}|${WORDS}|${digits}|${REST}`),
  ),
]);

const QUICK_NORMALIZERS = new Set([
  ...["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer", "Strip"],
]);
const QUICK_SPLITTERS = new Set([
  ...["ByteLevel", "BertPreTokenizer", "Whitespace", "WhitespaceSplit"],
  ...["Metaspace", "Punctuation", "Digits"],
]);

/** Parts of a sequence, and how many times a normalizer may lengthen a text. */
const partsMax = 8;
const growthMax = 16;

/**
 * True for a tokenizer.json that normalizes and splits by known means only. Any other may hold a
 * pattern that takes a time exponential in the text, or replacements that lengthen it without end:
 * such a tokenizer encodes on threads that can be stopped, never on the calling thread.
 */
export function encodesQuickly({ normalizer, pre_tokenizer: splitter }: Json): boolean {
  const normalizers = partsOf(normalizer, "normalizers");
  const splitters = partsOf(splitter, "pretokenizers");
  if (normalizers === null || splitters === null) return false;
  const growth = normalizers.reduce((product, part) => product * growthOf(part), 1);
  return growth <= growthMax && splitters.every(isQuickSplitter);
}

/** The parts of a sequence, or the only part; null: too many, or one that is no object. */
function partsOf(value: unknown, list: string): readonly Json[] | null {
  if (value === null || value === undefined) return [];
  if (!isObject(value)) return null;
  const parts: unknown = value.type === "Sequence" ? value[list] : [value];
  const isRight = Array.isArray(parts) && parts.length <= partsMax && parts.every(isObject);
  return isRight ? parts : null;
}

/** How many times as long a text can become; infinite where that is not known. */
function growthOf({ type, pattern, content, prepend }: Json): number {
  if (typeof type === "string" && QUICK_NORMALIZERS.has(type)) return 1;
  if (type === "Prepend") return lengthOf(prepend) <= growthMax ? 1 : Number.POSITIVE_INFINITY;
  const literal = isObject(pattern) && typeof pattern.String === "string" ? pattern.String : "";
  if (type !== "Replace" || literal === "") return Number.POSITIVE_INFINITY;
  return Math.max(1, lengthOf(content) / literal.length);
}

function lengthOf(value: unknown): number {
  return typeof value === "string" ? value.length : Number.POSITIVE_INFINITY;
}

/** Whether a part of a pre-tokenizer takes a time about linear in the text. */
export function isQuickSplitter({ type, pattern }: Json): boolean {
  if (typeof type === "string" && QUICK_SPLITTERS.has(type)) return true;
  if (type !== "Split" || !isObject(pattern)) return false;
  const { Regex: source } = pattern;
  return source === undefined
    ? typeof pattern.String === "string"
    : typeof source === "string" && QUICK_PATTERNS.has(source);
}
