/** A lower bound for the number of tokens of a text, computed without encoding it. */
import { EngineError } from "#base";
import { byteOfFallback, bytesOfByteLevel } from "./byte-alphabet.ts";
import { isObject, type Json } from "./tokenizer-files.ts";
import type { Vocabulary } from "./vocabulary.ts";

const BYTES = 256;
/** NFC shortens a text by a factor of at most 3: three jamos become one syllable. */
const COMPOSING = 3;

/**
 * Maximum number of text bytes that one token can stand for, or null if the tokenizer may drop text
 * or may encode text of any length as one token (unknown words).
 */
export function bytesPerToken(tokenizer: Json, vocabulary: Vocabulary): number | null {
  const { model, normalizer, pre_tokenizer: cutting, added_tokens: added } = tokenizer;
  if (!isObject(model) || (model.type ?? "BPE") !== "BPE") return null;
  const shrinks = shrinkingOf(normalizer);
  if (shrinks === null || !keepsText(cutting) || !spellsAllBytes(model, vocabulary)) return null;
  const strips = (token: unknown) =>
    isObject(token) && (token.lstrip === true || token.rstrip === true);
  if (Array.isArray(added) && added.some(strips)) return null;
  let longest = 1;
  for (let id = 0; id < vocabulary.size; id++) {
    longest = Math.max(longest, vocabulary.bytes(id).length);
  }
  return longest * shrinks;
}

/** The maximum factor by which a normalizer shortens a text; null: unbounded. */
function shrinkingOf(normalizer: unknown): number | null {
  if (normalizer === null || normalizer === undefined) return 1;
  if (!isObject(normalizer)) return null;
  switch (normalizer.type) {
    case "NFC":
      return COMPOSING;
    case "Prepend":
      return 1;
    case "Replace":
      return isSpaceMark(normalizer) ? 1 : null;
    case "Sequence": {
      const parts = Array.isArray(normalizer.normalizers) ? normalizer.normalizers : [null];
      return parts.reduce<number | null>((all, part) => {
        const one = shrinkingOf(part);
        return all === null || one === null || part === null ? null : all * one;
      }, 1);
    }
    default:
      return null;
  }
}

/** Whether the normalizer replaces spaces by SentencePiece's `▁`. */
function isSpaceMark({ pattern, content }: Json): boolean {
  return isObject(pattern) && pattern.String === " " && content === "▁";
}

/** Whether the pre-tokenizer keeps all text when it splits it into words. */
function keepsText(part: unknown): boolean {
  if (part === null || part === undefined) return true;
  if (!isObject(part)) return false;
  if (part.type === "Sequence") {
    return Array.isArray(part.pretokenizers) && part.pretokenizers.every(keepsText);
  }
  if (part.type === "Split") return part.behavior !== "Removed";
  return ["ByteLevel", "Metaspace", "Digits"].includes(String(part.type));
}

/** Whether every byte has its own token, so that no text is unknown. */
function spellsAllBytes(
  { vocab, byte_fallback: fallsBack }: Json,
  vocabulary: Vocabulary,
): boolean {
  if (vocabulary.kind === "raw" || !isObject(vocab)) return false;
  const seen = new Set<number | null>();
  if (vocabulary.kind === "byte_fallback") {
    if (fallsBack !== true) return false;
    for (const token of Object.keys(vocab)) seen.add(byteOfFallback(token));
    seen.delete(null);
    return seen.size === BYTES;
  }
  for (const token of Object.keys(vocab)) {
    const [byte = null, ...others] = bytesOfByteLevel(token);
    if (others.length === 0) seen.add(byte);
  }
  seen.delete(null);
  return seen.size === BYTES;
}

/** PROMPT_TOO_LONG if even the lower bound of tokens exceeds `tokensMax`; otherwise null. */
export function promptTooLong(
  tokensAtLeast: number,
  tokensMax: number | null,
  param: string,
): EngineError | null {
  if (tokensMax === null || tokensAtLeast <= tokensMax) return null;
  return new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot use ${param}: it must fit the model's maximum context length of ${tokensMax} tokens, ` +
      `current value is at least ${tokensAtLeast}; shorten it`,
    { param },
  );
}
