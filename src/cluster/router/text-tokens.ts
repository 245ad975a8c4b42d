/**
 * Text as numbers, where no tokenizer is known: four bytes of UTF-8 are one, as long as an average
 * token. Equal beginnings of texts are equal beginnings of numbers, which is all that an index of
 * what was routed needs.
 */

const PIECE_BYTES = 4;

/** Of a text in parts: putting a long conversation together first would take as long again. */
export function textTokens(parts: readonly string[]): Uint32Array {
  const lengths = parts.map((part) => Buffer.byteLength(part));
  const length = lengths.reduce((sum, bytes) => sum + bytes, 0);
  const tokens = new Uint32Array(Math.ceil(length / PIECE_BYTES));
  const bytes = Buffer.from(tokens.buffer);
  let at = 0;
  for (const [index, part] of parts.entries()) {
    // Of ASCII alone a copy is enough.
    const encoding = lengths[index] === part.length ? "latin1" : "utf8";
    at += bytes.write(part, at, encoding);
  }
  return tokens.subarray(0, Math.floor(length / PIECE_BYTES));
}
