/**
 * Text as numbers, where no tokenizer is known: a piece of four UTF-16 units is one, as long as an
 * average token. Equal beginnings of texts are equal beginnings of numbers, which is all that an
 * index of what was routed needs.
 */

const PIECE_UNITS = 4;
const PRIME = 0x01000193;

export function textTokens(text: string): Uint32Array {
  const tokens = new Uint32Array(Math.floor(text.length / PIECE_UNITS));
  for (let at = 0; at < tokens.length; at++) {
    let hash = 0x811c9dc5;
    for (let unit = at * PIECE_UNITS; unit < (at + 1) * PIECE_UNITS; unit++) {
      hash = Math.imul(hash ^ text.charCodeAt(unit), PRIME);
    }
    tokens[at] = hash;
  }
  return tokens;
}
