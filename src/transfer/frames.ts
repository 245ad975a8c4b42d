/**
 * Frames of control connections: length of what follows the type (u32), type (u8), content. All
 * numbers are big-endian. Pieces' bytes are among them only where there are no data connections.
 */
import { TransferError } from "./transfer-error.ts";

export const FRAME = {
  hello: 1,
  answer: 2,
  welcome: 3,
  refused: 4,
  read: 16,
  cancel: 17,
  taken: 18,
  linked: 19,
  notMapped: 20,
  check: 21,
  notReached: 22,
  slice: 32,
  at: 33,
  segment: 34,
  end: 35,
  placed: 36,
  agent: 37,
  remote: 38,
  stands: 39,
} as const;

/** Bits of a read: memory that its reader reaches itself. */
export const REACH = { maps: 1, nixl: 2 } as const;

export const HEADER_BYTES = 5;
/** Of a slice that travels in a frame; data connections have the same (native link-frame.h). */
export const SLICE_BYTES = 262_144;
/** Longest content: a read that names all pieces of an offer. */
export const FRAME_BYTES_MAX = 1 << 20;
/** Longest content until the peer has shown that it knows the secret. */
export const HANDSHAKE_BYTES_MAX = 256;

export interface Frame {
  readonly type: number;
  readonly content: Buffer;
}

/** A frame of parts, which are copied. */
export function frameOf(type: number, ...parts: readonly Uint8Array[]): Buffer {
  let bytes = 0;
  for (const part of parts) bytes += part.byteLength;
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bytes);
  frame.writeUInt32BE(bytes, 0);
  frame.writeUInt8(type, 4);
  let at = HEADER_BYTES;
  for (const part of parts) {
    frame.set(part, at);
    at += part.byteLength;
  }
  return frame;
}

/** Frames of a connection's bytes. It holds one frame's bytes and one chunk at most. */
export class FrameReader {
  bytesMax = HANDSHAKE_BYTES_MAX;
  #chunks: Buffer[] = [];
  #bytes = 0;

  /** Calls `take` for each whole frame until it returns false. Throws on one that is too long. */
  read(chunk: Buffer, take: (frame: Frame) => boolean): void {
    if (chunk.byteLength > 0) this.#chunks.push(chunk);
    this.#bytes += chunk.byteLength;
    while (this.#bytes >= HEADER_BYTES) {
      const head = this.#together(HEADER_BYTES);
      const length = head.readUInt32BE(0);
      if (length > this.bytesMax) {
        throw new TransferError("corrupt", `A frame of ${length} bytes came: a shorter one wanted`);
      }
      if (this.#bytes < HEADER_BYTES + length) return;
      const whole = this.#together(HEADER_BYTES + length);
      const content = whole.subarray(HEADER_BYTES, HEADER_BYTES + length);
      const rest = whole.subarray(HEADER_BYTES + length);
      if (rest.byteLength > 0) this.#chunks[0] = rest;
      else this.#chunks.shift();
      this.#bytes -= HEADER_BYTES + length;
      if (!take({ type: whole.readUInt8(4), content })) return;
    }
  }

  /** The first chunk, with at least `bytes`. What is behind them is not copied. */
  #together(bytes: number): Buffer {
    const first = this.#chunks[0]!;
    if (first.byteLength >= bytes) return first;
    const joined = Buffer.allocUnsafe(bytes);
    let used = 0;
    for (let at = 0; at < bytes; used++) at += this.#chunks[used]!.copy(joined, at);
    const last = this.#chunks[used - 1]!;
    const over = this.#chunks.slice(0, used).reduce((sum, { length }) => sum + length, -bytes);
    const rest = over > 0 ? [last.subarray(last.byteLength - over)] : [];
    this.#chunks.splice(0, used, joined, ...rest);
    return joined;
  }
}

/** Reads numbers of a frame in order; one that is not there is a corrupt frame. */
export class FrameFields {
  readonly #content: Buffer;
  #at = 0;

  constructor(content: Buffer) {
    this.#content = content;
  }

  get left(): number {
    return this.#content.byteLength - this.#at;
  }

  u8(): number {
    return this.#content.readUInt8(this.#advance(1));
  }

  u32(): number {
    return this.#content.readUInt32BE(this.#advance(4));
  }

  /** Up to 2^48. */
  u48(): number {
    return this.#content.readUIntBE(this.#advance(6), 6);
  }

  u64(): bigint {
    return this.#content.readBigUInt64BE(this.#advance(8));
  }

  bytes(count: number): Buffer {
    const at = this.#advance(count);
    return this.#content.subarray(at, at + count);
  }

  #advance(bytes: number): number {
    if (this.left < bytes) throw new TransferError("corrupt", "A frame ended too early");
    const at = this.#at;
    this.#at += bytes;
    return at;
  }
}

/** Writes numbers of a frame in order. */
export class FrameWriter {
  #parts: Buffer;
  #at = 0;

  constructor(bytes: number) {
    this.#parts = Buffer.allocUnsafe(bytes);
  }

  u8(value: number): this {
    this.#at = this.#parts.writeUInt8(value, this.#at);
    return this;
  }

  u32(value: number): this {
    this.#at = this.#parts.writeUInt32BE(value, this.#at);
    return this;
  }

  u48(value: number): this {
    this.#at = this.#parts.writeUIntBE(value, this.#at, 6);
    return this;
  }

  u64(value: bigint): this {
    this.#at = this.#parts.writeBigUInt64BE(value, this.#at);
    return this;
  }

  bytes(value: Uint8Array): this {
    this.#parts.set(value, this.#at);
    this.#at += value.byteLength;
    return this;
  }

  get content(): Buffer {
    return this.#parts.subarray(0, this.#at);
  }

  /** Bytes that can still be written. */
  get room(): number {
    return this.#parts.byteLength - this.#at;
  }

  frame(type: number): Buffer {
    return frameOf(type, this.content);
  }
}
