/**
 * Text as numbers, where no tokenizer is known: four bytes of UTF-8 are one, as long as an average
 * token. Equal beginnings of texts are equal beginnings of numbers, which is all that an index of
 * what was routed needs.
 */

const PIECE_BYTES = 4;

export function textTokens(text: string): Uint32Array {
  const bytes = Buffer.from(text);
  const tokens = new Uint32Array(Math.floor(bytes.length / PIECE_BYTES));
  // Numbers of 32 bits must begin at a multiple of four bytes.
  new Uint8Array(tokens.buffer).set(bytes.subarray(0, tokens.byteLength));
  return tokens;
}
