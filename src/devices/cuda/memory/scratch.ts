import type { CudaMemory } from "./memory.ts";

/** Alignment of parts of scratch memory. */
const alignment = 256;

/**
 * Device memory for intermediate results between an op's own kernels. One op uses it at a time: ops
 * run in the order of their calls.
 *
 * It grows when an op asks for more than any before; a step of the largest size at start covers
 * that. Regions that became too small stay until the device is closed: graphs that were captured
 * with them still write there. Growing by half at least keeps their sum below three times the last
 * one.
 */
export class Scratch {
  readonly #memory: CudaMemory;
  #address = 0n;
  #bytes = 0;

  constructor(memory: CudaMemory) {
    this.#memory = memory;
  }

  /** Addresses of regions of these sizes, contents undefined. Throws OUT_OF_MEMORY. */
  take<const Sizes extends readonly number[]>(
    sizes: Sizes,
  ): { readonly [Index in keyof Sizes]: bigint } {
    let end = 0;
    const starts = sizes.map((bytes) => {
      const start = end;
      end += Math.ceil(bytes / alignment) * alignment;
      return start;
    });
    if (end > this.#bytes) this.#grow(Math.max(end, Math.ceil(this.#bytes * 1.5)));
    const addresses = starts.map((start) => this.#address + BigInt(start));
    // An address for each size: the type of `map` loses the tuple's length.
    return addresses as unknown as { readonly [Index in keyof Sizes]: bigint };
  }

  #grow(bytes: number): void {
    this.#address = this.#memory.allocate(bytes, "scratch memory of ops");
    this.#bytes = bytes;
  }
}
