import type { FileBytes } from "./file-bytes.ts";
import { invalidFile } from "./invalid-file.ts";

/** Bytes per fetch: a view of a mapped file, a read of others. */
const WINDOW_BYTES = 2 ** 20;

/**
 * Reads little-endian values one after another and never past the end of the file. The caller names
 * each field, so that an error names the wrong field.
 */
export class ByteCursor {
  readonly #file: FileBytes;
  #position = 0;
  #window: DataView = new DataView(new ArrayBuffer(0));
  /** The same bytes as a Buffer. */
  #text: Buffer = Buffer.alloc(0);
  #windowStart = 0;

  constructor(file: FileBytes) {
    this.#file = file;
  }

  /** For messages. */
  get path(): string {
    return this.#file.path;
  }

  /** Bytes from the start of the file to the next value. */
  get position(): number {
    return this.#position;
  }

  get remainingBytes(): number {
    return this.#file.sizeBytes - this.#position;
  }

  u8(field: string): number {
    const at = this.#take(1, field);
    return this.#window.getUint8(at);
  }

  i8(field: string): number {
    const at = this.#take(1, field);
    return this.#window.getInt8(at);
  }

  u16(field: string): number {
    const at = this.#take(2, field);
    return this.#window.getUint16(at, true);
  }

  i16(field: string): number {
    const at = this.#take(2, field);
    return this.#window.getInt16(at, true);
  }

  u32(field: string): number {
    const at = this.#take(4, field);
    return this.#window.getUint32(at, true);
  }

  i32(field: string): number {
    const at = this.#take(4, field);
    return this.#window.getInt32(at, true);
  }

  f32(field: string): number {
    const at = this.#take(4, field);
    return this.#window.getFloat32(at, true);
  }

  f64(field: string): number {
    const at = this.#take(8, field);
    return this.#window.getFloat64(at, true);
  }

  u64(field: string): bigint {
    const at = this.#take(8, field);
    return this.#window.getBigUint64(at, true);
  }

  i64(field: string): bigint {
    const at = this.#take(8, field);
    return this.#window.getBigInt64(at, true);
  }

  /**
   * A count of items of at least `itemBytes` each: at most as many as the rest of the file can
   * hold.
   */
  count(field: string, itemBytes: number, most: number): number {
    const stated = this.u64(field);
    const limit = Math.min(most, Math.floor(this.remainingBytes / itemBytes));
    if (stated <= BigInt(limit)) return Number(stated);
    const must = `must be at most ${limit} with ${this.remainingBytes} bytes left in the file`;
    throw invalidFile({ path: this.path, field, must, actual: String(stated) });
  }

  /** `sizeBytes` bytes of UTF-8; malformed parts become U+FFFD, as in other readers. */
  text(sizeBytes: number, field: string): string {
    const start = this.#take(sizeBytes, field);
    return this.#text.toString("utf8", start, start + sizeBytes);
  }

  /** The next bytes, valid until the cursor moves on. */
  bytes(sizeBytes: number, field: string): Uint8Array {
    const start = this.#take(sizeBytes, field);
    return this.#text.subarray(start, start + sizeBytes);
  }

  /** Moves past the next bytes and returns their offset in the window, which it may replace. */
  #take(sizeBytes: number, field: string): number {
    if (sizeBytes > this.remainingBytes) {
      const must = `must have ${sizeBytes} bytes`;
      const actual = `${this.remainingBytes} left, the file is cut off`;
      throw invalidFile({ path: this.path, field, must, actual });
    }
    const start = this.#position;
    this.#position += sizeBytes;
    if (this.#position > this.#windowStart + this.#window.byteLength) {
      const end = Math.min(this.#file.sizeBytes, start + Math.max(WINDOW_BYTES, sizeBytes));
      const bytes = this.#file.read(start, end);
      this.#window = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.#text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      this.#windowStart = start;
    }
    return start - this.#windowStart;
  }
}
