import type { FileBytes } from "../../src/checkpoint/file-bytes.ts";

/** A file that is an array; counts what was asked for, so that tests can bound it. */
export class MemoryFile implements FileBytes {
  readonly path: string;
  readonly #bytes: Uint8Array;
  largestReadBytes = 0;
  closed = false;

  constructor(bytes: Uint8Array, path = "memory.bin") {
    this.path = path;
    this.#bytes = bytes;
  }

  get sizeBytes(): number {
    return this.#bytes.length;
  }

  read(start: number, end: number): Uint8Array {
    if (start < 0 || start > end || end > this.sizeBytes) throw new RangeError("outside the file");
    this.largestReadBytes = Math.max(this.largestReadBytes, end - start);
    return this.#bytes.subarray(start, end);
  }

  discard(): void {}

  close(): void {
    this.closed = true;
  }
}
