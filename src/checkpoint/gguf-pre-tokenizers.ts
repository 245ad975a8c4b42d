/**
 * Pre-tokenization of byte-level BPE vocabularies, by GGUF's `tokenizer.ggml.pre`. The patterns are
 * those of the models' own tokenizer.json files.
 */
import type { JsonObject } from "./json-text.ts";

/** The settings that depend on `tokenizer.ggml.pre`. */
export interface PreTokenization {
  readonly normalizer: JsonObject | null;
  readonly preTokenizer: JsonObject;
  /** A piece that is a token as a whole is used without merging. */
  readonly ignoreMerges: boolean;
  /** Whether text begins with the BOS token where the file does not specify it. */
  readonly addBos: boolean;
}

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const REST_WITH_SLASH = REST.replace("[\\r\\n]*", "[\\r\\n/]*");
const WORD = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
/** Words by case: an upper-case run, then a lower-case one. */
const UPPER = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const LOWER = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const LEAD = "[^\\r\\n\\p{L}\\p{N}]?";

const LLAMA3 = `${CONTRACTIONS}|${WORD}|\\p{N}{1,3}|${REST}`;
const QWEN2 = `${CONTRACTIONS}|${WORD}|\\p{N}|${REST}`;
const TEKKEN = `${LEAD}${UPPER}*${LOWER}+|${LEAD}${UPPER}+${LOWER}*|` + `\\p{N}|${REST_WITH_SLASH}`;
const O200K =
  `${LEAD}${UPPER}*${LOWER}+${CONTRACTIONS}?|${LEAD}${UPPER}+${LOWER}*${CONTRACTIONS}?|` +
  `\\p{N}{1,3}|${REST_WITH_SLASH}`;

/** Maps bytes to printable characters; with `useRegex`, after GPT-2's own splitting. */
function byteLevel(useRegex: boolean): JsonObject {
  return { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: useRegex };
}

function sequence(...pretokenizers: readonly JsonObject[]): JsonObject {
  return { type: "Sequence", pretokenizers };
}

function isolate(pattern: string): JsonObject {
  return { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false };
}

function cutBy(pattern: string): JsonObject {
  return sequence(isolate(pattern), byteLevel(false));
}

function plain(preTokenizer: JsonObject): PreTokenization {
  return { normalizer: null, preTokenizer, ignoreMerges: false, addBos: false };
}

const GPT2 = plain(byteLevel(true));
/**
 * Numerals one by one. A `Digits` step would be equivalent, but the tokenizer library's handles 0
 * to 9 only.
 */
const DIGITS = plain(sequence(isolate("\\p{N}"), byteLevel(true)));
const LLAMA_BPE = { ...plain(cutBy(LLAMA3)), ignoreMerges: true, addBos: true };
const QWEN = { ...plain(cutBy(QWEN2)), normalizer: { type: "NFC" } };

const BY_NAME: ReadonlyMap<string, PreTokenization> = new Map<string, PreTokenization>([
  ...["gpt-2", "gpt2", "phi-2", "olmo", "jina-es", "jina-de"].map((name) => [name, GPT2] as const),
  ...["llama-bpe", "llama3", "llama-v3", "falcon3"].map((name) => [name, LLAMA_BPE] as const),
  ...["dbrx", "smaug-bpe"].map((name) => [name, plain(cutBy(LLAMA3))] as const),
  ...["qwen2", "deepseek-r1-qwen", "megrez"].map((name) => [name, QWEN] as const),
  ...["smollm", "starcoder", "refact", "command-r", "codeshell"].map(
    (name) => [name, DIGITS] as const,
  ),
  ["tekken", { ...plain(cutBy(TEKKEN)), ignoreMerges: true, addBos: true }],
  ["gpt-4o", plain(cutBy(O200K))],
]);

/** Null for an unknown name; guessing would silently give other tokens. */
export function findPreTokenization(name: string): PreTokenization | null {
  return BY_NAME.get(name) ?? null;
}

/** The names that are known, as messages list them. */
export function preTokenizationNames(): string {
  return [...BY_NAME.keys()].join(", ");
}
