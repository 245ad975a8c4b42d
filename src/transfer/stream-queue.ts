import type { Socket } from "node:net";
import { bytesOf } from "./contract.ts";
import { copyNow } from "./copier.ts";
import { crc32c } from "./crc32c.ts";
import { FRAME, FrameWriter, SLICE_BYTES } from "./frames.ts";

const SLICE_HEADER_BYTES = 18;

interface QueuedPiece {
  readonly read: number;
  readonly piece: number;
  readonly ranges: readonly Uint8Array[];
  readonly bytes: number;
  readonly sent: () => void;
  offset: number;
}

/** Pieces that travel in frames of the control connection, one slice at a time. */
export class StreamQueue {
  readonly #socket: Socket;
  #pieces: QueuedPiece[] = [];
  #writing = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  add(read: number, piece: number, ranges: readonly Uint8Array[], sent: () => void): void {
    this.#pieces.push({ read, piece, ranges, bytes: bytesOf(ranges), sent, offset: 0 });
    this.#pump();
  }

  /** Memory of the read is not read any more when this returns. */
  remove(read: number): void {
    this.#pieces = this.#pieces.filter((piece) => piece.read !== read);
  }

  #pump(): void {
    const piece = this.#pieces[0];
    if (this.#writing || piece === undefined || this.#socket.destroyed) return;
    const bytes = Math.min(SLICE_BYTES, piece.bytes - piece.offset);
    const slice = sliceOf(piece.ranges, piece.offset, bytes);
    const writer = new FrameWriter(SLICE_HEADER_BYTES + bytes);
    writer.u32(piece.read).u32(piece.piece).u48(piece.offset).u32(crc32c(slice)).bytes(slice);
    piece.offset += bytes;
    const whole = piece.offset === piece.bytes;
    if (whole) this.#pieces.shift();
    this.#writing = true;
    this.#socket.write(writer.frame(FRAME.slice), (error) => {
      this.#writing = false;
      if (error) return;
      if (whole) piece.sent();
      this.#pump();
    });
  }
}

/** A copy of `bytes` of the ranges from `offset` on. */
function sliceOf(ranges: readonly Uint8Array[], offset: number, bytes: number): Uint8Array {
  const slice = new Uint8Array(bytes);
  copyNow(partOf(ranges, offset, bytes), [slice]);
  return slice;
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
