/**
 * The chunks of a body (RFC 9112, 7.1) in the one form in which servers write them: a size without
 * extensions, bytes, an end of line. Whatever else comes is left to a whole parser of HTTP.
 */

const CARRIAGE_RETURN = 13;
const LINE_FEED = 10;
/** A size and its end of line; longer ones are no plain chunk. */
const DIGITS_MAX = 7;

/** What a piece of a connection's bytes was. */
export interface ChunkPiece {
  /** Content of chunks, a view of what was read; empty: none has come. */
  readonly content: Buffer;
  /** From here on it is no plain chunk: the last one, or none at all. Null: all was read. */
  readonly rest: Buffer | null;
}

export class ChunkFraming {
  /** Bytes of the chunk that are still to come, with its end of line. */
  #left = 0;
  /** The beginning of a chunk's size, whose end is in the next piece. */
  #begun: Buffer | null = null;

  /** All bytes so far are whole chunks. */
  get isBetween(): boolean {
    return this.#left === 0 && this.#begun === null;
  }

  /** Moves the contents of several chunks together, inside of `piece`. */
  read(piece: Buffer): ChunkPiece {
    const bytes = this.#begun === null ? piece : Buffer.concat([this.#begun, piece]);
    this.#begun = null;
    let from = -1;
    let to = 0;
    let at = 0;
    while (at < bytes.length) {
      if (this.#left === 0) {
        const start = this.#readSize(bytes, at);
        if (start === 0) return { content: view(bytes, from, to), rest: bytes.subarray(at) };
        if (this.#left === 0) break;
        at = start;
      }
      const end = at + Math.min(this.#left - 2, bytes.length - at);
      if (end > at) {
        if (from < 0) [from, to] = [at, at];
        if (to !== at) bytes.copyWithin(to, at, end);
        to += end - at;
        this.#left -= end - at;
        at = end;
      }
      for (; this.#left > 0 && this.#left <= 2 && at < bytes.length; this.#left--, at++) {
        const wanted = this.#left === 2 ? CARRIAGE_RETURN : LINE_FEED;
        // A size that is none: a parser that is given this fails.
        if (bytes[at] !== wanted) return { content: view(bytes, from, to), rest: NO_CHUNK };
      }
    }
    return { content: view(bytes, from, to), rest: null };
  }

  /** The index behind a chunk's size; 0: there is none. Where it ends later, nothing is left. */
  #readSize(bytes: Buffer, from: number): number {
    let size = 0;
    let at = from;
    for (; at < bytes.length && at - from <= DIGITS_MAX; at++) {
      const digit = hexDigit(bytes[at] ?? 0);
      if (digit < 0) break;
      size = size * 16 + digit;
    }
    const digits = at - from;
    if (digits > DIGITS_MAX) return 0;
    const isEnding = at === bytes.length || at + 1 === bytes.length;
    if (at < bytes.length && (digits === 0 || bytes[at] !== CARRIAGE_RETURN)) return 0;
    // The last chunk has no content: it and what follows it are not looked at here.
    if (at < bytes.length && size === 0) return 0;
    if (isEnding) {
      this.#begun = Buffer.from(bytes.subarray(from));
      return bytes.length;
    }
    if (bytes[at + 1] !== LINE_FEED) return 0;
    this.#left = size + 2;
    return at + 2;
  }
}

const NO_SIZE = "no chunk\r\n";
const NO_CHUNK = Buffer.from(NO_SIZE);
const NONE = Buffer.alloc(0);

function view(bytes: Buffer, from: number, to: number): Buffer {
  return from < 0 ? NONE : bytes.subarray(from, to);
}

/** -1: no digit. */
function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}
