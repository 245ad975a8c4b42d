/**
 * Pinned memory for all copies between JavaScript's memory and the device. Copies from memory that
 * is not pinned are staged by the driver anyway, and block the caller.
 */

import { assert } from "#base";
import { type CudaDriver, CudaEvent, type CudaStream, viewOf } from "#devices/cuda/driver";
import type { CudaMemory } from "./memory.ts";

/** Options of the staging memory. */
export interface StagingOptions {
  readonly driver: CudaDriver;
  readonly memory: CudaMemory;
  readonly stream: CudaStream;
  /** Parts that are filled in turn: while one is copied, the next one is filled. */
  readonly parts?: number;
  readonly partBytes?: number;
}

/** Enough for the small inputs of several steps, and for a copy at full speed. */
const defaultPartBytes = 4 << 20;
const defaultParts = 4;

/** Every copy begins at a multiple of this, so that typed arrays can be laid over it. */
const alignment = 16;

interface Part {
  readonly address: bigint;
  readonly bytes: Uint8Array;
  /** Recorded behind the last copy out of this part. */
  readonly done: CudaEvent;
}

/** A ring of pinned parts for uploads, and one of them for downloads. */
export class Staging {
  readonly #driver: CudaDriver;
  readonly #memory: CudaMemory;
  readonly #stream: CudaStream;
  readonly #parts: readonly Part[];
  readonly #back: Part;
  #current = 0;
  /** Used bytes of the current part. */
  #used = 0;

  constructor({ driver, memory, stream, parts, partBytes }: StagingOptions) {
    this.#driver = driver;
    this.#memory = memory;
    this.#stream = stream;
    const size = partBytes ?? defaultPartBytes;
    const all = Array.from({ length: (parts ?? defaultParts) + 1 }, () => this.#makePart(size));
    // The list has at least two parts.
    const [back, ...ring] = all as [Part, ...Part[]];
    this.#back = back;
    this.#parts = ring;
  }

  /**
   * Enqueues a copy to the device. `data` may be reused when this returns; the call waits only when
   * all parts of the ring are still being copied.
   */
  upload(to: bigint, data: ArrayBufferView): void {
    // At its launch a graph would copy whatever the ring holds then.
    assert(!this.#stream.capturing, "Cannot upload from inside a graph: write before its launch");
    const source = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    for (let start = 0; start < source.length; ) {
      const part = this.#room();
      const count = Math.min(source.length - start, part.bytes.length - this.#used);
      part.bytes.set(source.subarray(start, start + count), this.#used);
      const status = this.#driver.calls.cuMemcpyHtoDAsync(
        to + BigInt(start),
        part.address + BigInt(this.#used),
        count,
        this.#stream.handle,
      );
      this.#driver.check("cuMemcpyHtoDAsync", status);
      this.#used += Math.ceil(count / alignment) * alignment;
      start += count;
    }
  }

  /** Copies from the device after everything enqueued, and waits for it. */
  download(into: ArrayBufferView, from: bigint): void {
    assert(!this.#stream.capturing, "Cannot read from inside a graph: read after its launch");
    const target = new Uint8Array(into.buffer, into.byteOffset, into.byteLength);
    const { address, bytes } = this.#back;
    for (let start = 0; start < target.length; start += bytes.length) {
      const count = Math.min(target.length - start, bytes.length);
      const source = from + BigInt(start);
      this.#driver.run("cuMemcpyDtoHAsync", address, source, count, this.#stream.handle);
      this.#stream.synchronize();
      target.set(bytes.subarray(0, count), start);
    }
  }

  dispose(): void {
    for (const part of [this.#back, ...this.#parts]) {
      part.done.destroy();
      this.#memory.release(part.address);
    }
  }

  /** The part to fill next, with enough free bytes. */
  #room(): Part {
    const part = this.#part();
    if (this.#used < part.bytes.length) return part;
    part.done.record(this.#stream);
    this.#current = (this.#current + 1) % this.#parts.length;
    this.#used = 0;
    const next = this.#part();
    next.done.wait();
    return next;
  }

  #part(): Part {
    // The ring is never empty, and #current stays inside it.
    return this.#parts[this.#current] as Part;
  }

  #makePart(size: number): Part {
    const address = this.#memory.allocateHost(size, "pinned staging memory");
    return { address, bytes: viewOf(address, size), done: new CudaEvent(this.#driver) };
  }
}
