/**
 * The alphabet of byte-level BPE: every byte has a printable character. Bytes that are printable in
 * Latin-1 stand for themselves, the other 68 for U+0100 and up, in order.
 * Source: A. Radford et al. 2019, "Language models are unsupervised multitask learners" (GPT-2).
 */

const printable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

const charByByte: string[] = [];
for (let byte = 0, next = 0x100; byte < 0x100; byte++) {
  charByByte.push(String.fromCharCode(printable(byte) ? byte : next++));
}
const byteByChar = new Map(charByByte.map((char, byte) => [char, byte]));

/** How a byte is written in this alphabet. */
export function byteLevelCharacter(byte: number): string {
  return charByByte[byte] ?? "";
}

const encoder = new TextEncoder();

/** Bytes of a token in this alphabet; its UTF-8 if it has a character outside the alphabet. */
export function bytesOfByteLevel(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = byteByChar.get(token[i] ?? "");
    if (byte === undefined) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}

const byteToken = /^<0x([0-9A-Fa-f]{2})>$/;

/** The byte that a SentencePiece byte-fallback token (`<0x0A>`) stands for, or null. */
export function byteOfFallback(token: string): number | null {
  const hex = token.length === 6 ? byteToken.exec(token)?.[1] : undefined;
  return hex === undefined ? null : Number.parseInt(hex, 16);
}
