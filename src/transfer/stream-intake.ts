import { copyNow } from "./copier.ts";
import { crc32c } from "./crc32c.ts";
import { type FrameFields, SLICE_BYTES } from "./frames.ts";
import type { PendingRead } from "./pending-read.ts";
import { partOf } from "./stream-queue.ts";

/** Slices of one read that came in frames: each is taken once, where and as long as it must be. */
export class StreamIntake {
  readonly #read: PendingRead;
  /** Offsets of each piece that came. */
  readonly #seen = new Map<number, Set<number>>();

  constructor(read: PendingRead) {
    this.#read = read;
  }

  take(fields: FrameFields): void {
    const piece = fields.u32();
    const offset = fields.u48();
    const crc = fields.u32();
    const slice = fields.bytes(fields.left);
    if (this.#read.ending) return;
    const into = this.#read.targets.get(piece);
    const bytes = this.#read.wanted.get(piece) ?? 0;
    const seen = this.#seen.get(piece) ?? new Set();
    this.#seen.set(piece, seen);
    const fits =
      into !== undefined &&
      offset % SLICE_BYTES === 0 &&
      (offset < bytes || bytes === 0) &&
      !seen.has(offset) &&
      slice.byteLength === Math.min(SLICE_BYTES, bytes - offset);
    if (!fits) this.#read.fail("corrupt", `a slice of piece ${piece} is not what was asked for`);
    else if (crc32c(slice) !== crc) this.#read.fail("corrupt", `checksum of piece ${piece}`);
    else {
      copyNow([slice], partOf(into, offset, slice.byteLength));
      seen.add(offset);
      if (seen.size === Math.max(1, Math.ceil(bytes / SLICE_BYTES))) this.#read.arrived(piece);
    }
  }
}
