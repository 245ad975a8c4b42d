import type { Socket } from "node:net";
import { bytesOf } from "./contract.ts";
import { copyNow } from "./copier.ts";
import { crc32c } from "./crc32c.ts";
import { FRAME, HEADER_BYTES, SLICE_BYTES } from "./frames.ts";

/** Read, piece, offset and checksum. */
const SLICE_HEAD_BYTES = 18;
/** The next slices are made while the system takes those before. */
const WRITES_MAX = 2;

interface QueuedPiece {
  readonly read: number;
  readonly piece: number;
  readonly ranges: readonly Uint8Array[];
  readonly bytes: number;
  readonly sent: () => void;
  offset: number;
}

/** Pieces that travel in frames of the control connection, small ones together. */
export class StreamQueue {
  readonly #socket: Socket;
  #pieces: QueuedPiece[] = [];
  #writes = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  add(read: number, piece: number, ranges: readonly Uint8Array[], sent: () => void): void {
    this.#pieces.push({ read, piece, ranges, bytes: bytesOf(ranges), sent, offset: 0 });
    // Those of one turn go together.
    if (this.#pieces.length === 1) setImmediate(() => this.#pump());
  }

  /** Memory of the read is not read any more when this returns. */
  remove(read: number): void {
    this.#pieces = this.#pieces.filter((piece) => piece.read !== read);
  }

  #pump(): void {
    while (this.#writes < WRITES_MAX && this.#pieces.length > 0 && !this.#socket.destroyed) {
      const slices = this.#take();
      this.#writes++;
      this.#socket.write(framesOf(slices), (error) => {
        this.#writes--;
        if (error) return;
        for (const { of, end } of slices) if (end === of.bytes) of.sent();
        this.#pump();
      });
    }
  }

  /** A slice of the oldest piece, and of those behind it as long as they are no more together. */
  #take(): Slice[] {
    const slices: Slice[] = [];
    let room = SLICE_BYTES;
    let whole = 0;
    for (const of of this.#pieces) {
      const { offset: start } = of;
      const bytes = Math.min(SLICE_BYTES, of.bytes - start);
      if (bytes + SLICE_HEAD_BYTES > room && slices.length > 0) break;
      room -= bytes + SLICE_HEAD_BYTES;
      of.offset += bytes;
      slices.push({ of, start, end: of.offset });
      if (of.offset < of.bytes) break;
      whole++;
    }
    this.#pieces.splice(0, whole);
    return slices;
  }
}

interface Slice {
  readonly of: QueuedPiece;
  readonly start: number;
  readonly end: number;
}

/** One buffer with a frame for each slice: their bytes are copied once. */
function framesOf(slices: readonly Slice[]): Buffer {
  const head = HEADER_BYTES + SLICE_HEAD_BYTES;
  const bytes = slices.reduce((sum, { start, end }) => sum + head + end - start, 0);
  const frames = Buffer.allocUnsafe(bytes);
  let at = 0;
  for (const { of, start, end } of slices) {
    const slice = frames.subarray(at + head, at + head + end - start);
    copyNow(partOf(of.ranges, start, end - start), [slice]);
    at = frames.writeUInt32BE(SLICE_HEAD_BYTES + slice.byteLength, at);
    at = frames.writeUInt8(FRAME.slice, at);
    at = frames.writeUInt32BE(of.read, at);
    at = frames.writeUInt32BE(of.piece, at);
    at = frames.writeUIntBE(start, at, 6);
    at = frames.writeUInt32BE(crc32c(slice), at) + slice.byteLength;
  }
  return frames;
}

/** The parts of ranges from `offset` on, `bytes` in all. */
export function partOf(ranges: readonly Uint8Array[], offset: number, bytes: number): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let before = 0;
  for (const range of ranges) {
    const from = Math.max(0, offset - before);
    const to = Math.min(range.byteLength, offset + bytes - before);
    if (from < to) parts.push(range.subarray(from, to));
    before += range.byteLength;
  }
  return parts;
}
