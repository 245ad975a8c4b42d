/**
 * Tokens that are a word with the space before it: text of such words alone is encoded to exactly
 * these tokens again, so that made-up prompts and outputs survive the way over text.
 */

/** A space before letters, as byte-level and SentencePiece vocabularies write it. */
const WORD = /^[\u0120\u2581 ]\p{L}+$/u;

/** Below this many words a vocabulary has another form. */
const WORDS_MIN = 64;

/** A word's token, and its text with the space before it. */
export interface WordToken {
  readonly id: number;
  readonly text: string;
}

/**
 * The words of a tokenizer.json, by rising id; none where it has too few of them. A SentencePiece
 * vocabulary of other spelling, or one of raw bytes, has none.
 */
export function wordTokens(tokenizerJson: unknown): readonly WordToken[] {
  const words = entriesOf(tokenizerJson)
    .filter(([piece]) => WORD.test(piece) && isAscii(piece.slice(1)))
    .map(([piece, id]) => ({ id, text: ` ${piece.slice(1)}` }))
    .sort((a, b) => a.id - b.id);
  return words.length < WORDS_MIN ? [] : words;
}

/** Pieces and ids: of BPE and WordPiece by name, of Unigram by place. */
function entriesOf(tokenizerJson: unknown): [string, number][] {
  const vocab = field(field(tokenizerJson, "model"), "vocab");
  if (Array.isArray(vocab)) {
    return vocab.flatMap((entry: unknown, id): [string, number][] =>
      Array.isArray(entry) && typeof entry[0] === "string" ? [[entry[0], id]] : [],
    );
  }
  if (typeof vocab !== "object" || vocab === null) return [];
  return Object.entries(vocab).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number",
  );
}

/** Byte-level vocabularies write other letters as several characters of their own. */
function isAscii(text: string): boolean {
  return [...text].every((letter) => letter < "\u0080");
}

function field(value: unknown, name: string): unknown {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.entries(value).find(([key]) => key === name)?.[1];
}
