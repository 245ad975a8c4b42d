/**
 * Incremental UTF-8 decoding. A character whose last bytes are missing is held back, so no piece
 * ends inside a character; bytes that cannot become a character turn into U+FFFD at once.
 */

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const none = new Uint8Array(0);

/** A character's length in bytes, from its first byte; 1 for bytes that start no character. */
function lengthByLead(byte: number): number {
  if (byte >= 0xf0 && byte <= 0xf4) return 4;
  if (byte >= 0xe0 && byte <= 0xef) return 3;
  return byte >= 0xc2 && byte <= 0xdf ? 2 : 1;
}

/** Whether `second` may follow `lead`: no overlong forms, no surrogates, nothing past U+10FFFF. */
function mayFollow(lead: number, second: number): boolean {
  if (lead === 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (lead === 0xed) return second >= 0x80 && second <= 0x9f;
  if (lead === 0xf0) return second >= 0x90 && second <= 0xbf;
  if (lead === 0xf4) return second >= 0x80 && second <= 0x8f;
  return (second & 0xc0) === 0x80;
}

/** How many bytes at the end are the valid beginning of one unfinished character: 0 to 3. */
function unfinishedLength(bytes: Uint8Array): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const [lead = 0, second = 0] = bytes.subarray(bytes.length - length);
    if ((lead & 0xc0) === 0x80) continue;
    const unfinished = length < lengthByLead(lead) && (length === 1 || mayFollow(lead, second));
    return unfinished ? length : 0;
  }
  return 0;
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}

/** `bytes` as text, with U+FFFD for invalid UTF-8. A byte order mark stays. */
export function textOf(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** The concatenated results of `push` and `flush` equal `textOf` of all bytes. */
export class Utf8Stream {
  #held: Uint8Array;

  constructor(held: Uint8Array = none) {
    this.#held = held;
  }

  /** Whether bytes of an unfinished character are held. */
  get holds(): boolean {
    return this.#held.length > 0;
  }

  /** The text of all characters that these bytes complete. */
  push(bytes: Uint8Array): string {
    const all = this.#held.length === 0 ? bytes : joined(this.#held, bytes);
    const end = all.length - unfinishedLength(all);
    this.#held = end === all.length ? none : all.slice(end);
    return end === 0 ? "" : decoder.decode(all.subarray(0, end));
  }

  /** Held bytes as U+FFFD; "" if there are none. */
  flush(): string {
    const held = this.#held;
    this.#held = none;
    return held.length === 0 ? "" : decoder.decode(held);
  }

  /** An independent stream in the same state. */
  fork(): Utf8Stream {
    return new Utf8Stream(this.#held);
  }
}
