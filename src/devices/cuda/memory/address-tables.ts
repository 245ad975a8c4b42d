import type { CudaMemory } from "./memory.ts";
import type { Staging } from "./staging.ts";

/**
 * Lists of addresses in device memory, for kernels that choose among many matrices. A table is made
 * at the first use of a list of matrices and kept as long as the device.
 */
export class AddressTables {
  readonly #memory: CudaMemory;
  readonly #staging: Staging;
  readonly #known = new WeakMap<object, bigint>();

  constructor(memory: CudaMemory, staging: Staging) {
    this.#memory = memory;
    this.#staging = staging;
  }

  /** Address of the table of `matrices`; the same list gives the same table. */
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
