/** How many tokens a text has at least, known without encoding it. */
import { EngineError } from "#base";
import { byteOfFallback, bytesOfByteLevel } from "./byte-alphabet.ts";
import { isObject, type Json } from "./tokenizer-files.ts";
import type { Vocabulary } from "./vocabulary.ts";

const BYTES = 256;
/** NFC makes at most a third of a text's bytes: three jamos are one syllable. */
const COMPOSING = 3;

/**
 * Most bytes of a text that one token can stand for, or null where a tokenizer may drop text or
 * stand for any length of it by one token (unknown words).
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

/** By how much a normalizer can shorten a text; null: any. */
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

/** SentencePiece's `▁` for a space. */
function isSpaceMark({ pattern, content }: Json): boolean {
  return isObject(pattern) && pattern.String === " " && content === "▁";
}

/** Does cutting into words leave all text in one of them? */
function keepsText(part: unknown): boolean {
  if (part === null || part === undefined) return true;
  if (!isObject(part)) return false;
  if (part.type === "Sequence") {
    return Array.isArray(part.pretokenizers) && part.pretokenizers.every(keepsText);
  }
  if (part.type === "Split") return part.behavior !== "Removed";
  return ["ByteLevel", "Metaspace", "Digits"].includes(String(part.type));
}

/** Has every byte a token of its own, so that no text is unknown? */
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

/** PROMPT_TOO_LONG where even the least number of tokens is more than `tokensMax`; else null. */
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
