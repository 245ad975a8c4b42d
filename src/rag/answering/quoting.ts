/**
 * Documents as quotations in a prompt. What a source says stays inside its passage: it cannot begin
 * another passage, put the question, open a turn of the chat or show a citation of its own.
 */
import type { TextCodec } from "#engine";

/** UTF-16 units of a passage; chunks of foreign stores may be of any length. */
const UNITS_MAX = 32_768;

/** All that breaks a line besides "\n". */
const LINE_BREAKS = /\r\n?|[\v\f\u0085\u2028\u2029]/g;
/** Controls and invisible characters; joiners stay, since scripts need them. */
const UNSEEN = /(?![\t\n])\p{Cc}|(?![\u200c\u200d])\p{Cf}/gu;
const BLANK_LINES = /\n(?:[^\S\n]*\n)+/g;
const MARKER_AT_START = /^([^\S\n]*)[[［【]\s*(\d[\d\s,]*)[\]］】]/gm;
const MARKER = /[[［【]\s*(\d[\d\s,]*)[\]］】]/g;
/** Words with which prompts begin their parts. */
const PART =
  /^([^\S\n>#*]*(?:question|answer|passages?|context|system|user|assistant)\s*\d*)\s*:/gim;
const TAG_NAMES =
  "source|passage|context|document|system|user|assistant|think|tool_\\w+|s|bos|eos|pad|unk|" +
  "start_of_turn|end_of_turn";
const TAG = new RegExp(`<(?=/?(?:${TAG_NAMES})\\b)`, "gi");
const SIGILS: readonly (readonly [RegExp, string])[] = [
  [/<\|/g, "< |"],
  [/\|>/g, "| >"],
  [/<(?=<\/?SYS>>)/gi, "< "],
  [/\[(?=\/?INST\])/gi, "[ "],
];

/**
 * A source's text in which nothing looks like a part of a prompt: one paragraph without blank
 * lines, `[2]` as `(2)` or `[ 2]`, tokens of chat templates broken by a space. Other text is
 * unchanged.
 */
export function quoted(source: string): string {
  let text = source.slice(0, UNITS_MAX).toWellFormed().replace(LINE_BREAKS, "\n");
  text = text.replace(UNSEEN, "").replace(BLANK_LINES, "\n");
  text = text.replace(MARKER_AT_START, "$1($2)").replace(MARKER, "[ $1]");
  text = text.replace(PART, "$1 -").replace(TAG, "< ");
  for (const [sigil, broken] of SIGILS) text = text.replace(sigil, broken);
  return text.trim();
}

/** How often a text is encoded in search of tokens that breaking others put together. */
const ROUNDS = 3;

/** A text without special tokens of the model, and how many tokens it has. */
export interface EncodedText {
  readonly text: string;
  readonly tokens: number;
}

/**
 * Breaks whatever the model's own tokenizer reads as a special token, by a space behind its first
 * character; what remains after some rounds is cut out.
 */
export async function withoutSpecialTokens(
  source: string,
  codec: TextCodec,
  signal?: AbortSignal,
): Promise<EncodedText> {
  let text = source;
  const options = { addSpecialTokens: false, ...(signal && { signal }) };
  for (let round = 0; ; round++) {
    const ids = await codec.encode(text, options);
    const pieces = specialPieces(ids, codec);
    if (pieces.length === 0) return { text, tokens: ids.length };
    for (const piece of pieces) {
      const [first = "", ...rest] = piece;
      const broken = round < ROUNDS && rest.length > 0 ? `${first} ${rest.join("")}` : " ";
      text = text.replaceAll(piece, broken);
    }
    if (round > 2 * ROUNDS) return { text: "", tokens: 0 };
  }
}

/** The texts of special tokens among ids. */
function specialPieces(ids: readonly number[], codec: TextCodec): string[] {
  const plain = { skipSpecialTokens: false };
  if (codec.decode(ids, plain) === codec.decode(ids)) return [];
  const found = new Set<string>();
  for (const id of new Set(ids)) {
    const piece = codec.decode([id], plain).trim();
    if (piece !== "" && codec.decode([id]).trim() === "") found.add(piece);
  }
  return [...found];
}
