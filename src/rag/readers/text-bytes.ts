/** Text in bytes of an unknown encoding. */
import { EngineError } from "#base";

/** Text, and how its bytes were understood. */
export interface DecodedText {
  /** Without a byte order mark. */
  readonly text: string;
  /** `utf-8`, `utf-16le`, `utf-16be` or `windows-1252`. */
  readonly encoding: string;
}

/** Bytes that are looked at to tell text from other data. */
const LOOKED_AT = 2 ** 16;
/** Share of control characters from which on bytes are no text. */
const CONTROLS_MAX = 0.05;

/**
 * A byte order mark decides; without one it is UTF-8 where that is possible. Else bytes of which
 * more are broken UTF-8 than whole characters are windows-1252 (Latin-1 and more), and others UTF-8
 * in which U+FFFD stands for what is broken. Throws INVALID_ARGUMENT where it is no text.
 */
export function decodeText(bytes: Uint8Array, name: string): DecodedText {
  const encoding = encodingOf(bytes);
  if (encoding === null) {
    const size = `${bytes.length} bytes`;
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot read ${JSON.stringify(name)}: it must be text, its ${size} are binary data`,
    );
  }
  if (encoding === "windows-1252") return { text: windowsText(bytes), encoding };
  return { text: new TextDecoder(encoding).decode(bytes), encoding };
}

/** What windows-1252 has at 0x80 to 0x9f, where Latin-1 has control characters. */
const WINDOWS = "€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ";

/** Node 20's TextDecoder reads windows-1252 as Latin-1. */
function windowsText(bytes: Uint8Array): string {
  const latin = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  return latin.replace(/[\u0080-\u009f]/g, (mark) => WINDOWS[mark.charCodeAt(0) - 0x80] ?? mark);
}

function encodingOf(bytes: Uint8Array): string | null {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return "utf-16le";
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return "utf-16be";
  if (bytes.includes(0)) return wideEncoding(bytes);
  if (controlShare(bytes) > CONTROLS_MAX) return null;
  return isMostlyUtf8(bytes) ? "utf-8" : "windows-1252";
}

/** UTF-16 of mostly Latin text has a zero in every second byte. */
function wideEncoding(bytes: Uint8Array): string | null {
  const looked = bytes.subarray(0, LOOKED_AT);
  const zeros: [number, number] = [0, 0];
  for (let at = 0; at < looked.length; at++) if (looked[at] === 0) zeros[at % 2 === 0 ? 0 : 1]++;
  const [even, odd] = zeros;
  const half = looked.length / 2;
  if (bytes.length % 2 !== 0) return null;
  if (odd > half * 0.4 && even < half * 0.05) return "utf-16le";
  if (even > half * 0.4 && odd < half * 0.05) return "utf-16be";
  return null;
}

function controlShare(bytes: Uint8Array): number {
  const looked = bytes.subarray(0, LOOKED_AT);
  let controls = 0;
  for (const byte of looked) {
    // Tab to carriage return, and the escape of coloured logs, are text.
    if ((byte < 9 || (byte > 13 && byte < 32 && byte !== 27)) && byte < 32) controls++;
  }
  return looked.length === 0 ? 0 : controls / looked.length;
}

function isMostlyUtf8(bytes: Uint8Array): boolean {
  let whole = 0;
  let broken = 0;
  for (let at = 0; at < bytes.length; ) {
    if ((bytes[at] ?? 0) < 0x80) {
      at++;
      continue;
    }
    const length = sequenceLength(bytes, at);
    if (length === 0) broken++;
    else whole++;
    at += Math.max(1, length);
  }
  return broken <= whole;
}

/** Bytes of the character at a place; 0: it is broken. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] ?? 0;
  const length = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (lead >= 0xf5) return 0;
  for (let next = 1; next < length; next++) {
    if (((bytes[at + next] ?? 0) & 0xc0) !== 0x80) return 0;
  }
  return length;
}
