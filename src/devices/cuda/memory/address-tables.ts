import type { CudaMemory } from "./memory.ts";
import type { Staging } from "./staging.ts";

/**
 * Lists of addresses in device memory, for kernels that choose among many matrices. Made once for
 * every list of matrices, at its first use, and kept as long as the device.
 */
export class AddressTables {
  readonly #memory: CudaMemory;
  readonly #staging: Staging;
  readonly #known = new WeakMap<object, bigint>();

  constructor(memory: CudaMemory, staging: Staging) {
    this.#memory = memory;
    this.#staging = staging;
  }

  /** Where the addresses of `matrices` lie; the same list gives the same place. */
  of(matrices: readonly { readonly address: bigint }[], key: object): bigint {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const addresses = BigUint64Array.from(matrices, (matrix) => matrix.address);
    const place = this.#memory.allocate(addresses.byteLength, "addresses of experts");
    this.#staging.upload(place, addresses);
    this.#known.set(key, place);
    return place;
  }
}
