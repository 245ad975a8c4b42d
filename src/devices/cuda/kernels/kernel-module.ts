import type { CudaDriver } from "#devices/cuda/driver";

/** Numbers of cuda.h (CUfunction_attribute). */
const attributes = {
  threadsMax: 0,
  sharedBytes: 1,
  localBytes: 3,
  registers: 4,
  dynamicSharedBytes: 8,
} as const;

/** Resources of a compiled kernel, per thread or block. */
export interface KernelResources {
  readonly threadsMax: number;
  readonly registers: number;
  /** Bytes of spills and arrays in local memory, per thread; 0 for a fast kernel. */
  readonly localBytes: number;
  /** Static shared memory of a block. */
  readonly sharedBytes: number;
}

/** A kernel that can be launched. */
export class Kernel {
  readonly name: string;
  readonly handle: bigint;
  readonly #driver: CudaDriver;
  #sharedBytes = 0;

  constructor(driver: CudaDriver, name: string, handle: bigint) {
    this.#driver = driver;
    this.name = name;
    this.handle = handle;
  }

  /**
   * Allows launches to use this much dynamic shared memory, which is required beyond 48 KiB. Calls
   * the driver only for more than before, so that it may precede every launch.
   */
  allowSharedBytes(bytes: number): void {
    if (bytes <= this.#sharedBytes) return;
    this.#sharedBytes = bytes;
    this.#driver.run("cuFuncSetAttribute", this.handle, attributes.dynamicSharedBytes, bytes);
  }

  /** Blocks of `threads` threads that one multiprocessor runs at once. */
  blocksPerMultiprocessor(threads: number, sharedBytes = 0): number {
    const out = new Int32Array(1);
    const call = "cuOccupancyMaxActiveBlocksPerMultiprocessor";
    this.#driver.run(call, out, this.handle, threads, sharedBytes);
    return out[0] ?? 0;
  }

  resources(): KernelResources {
    const read = (attribute: number): number => {
      const out = new Int32Array(1);
      this.#driver.run("cuFuncGetAttribute", out, attribute, this.handle);
      return out[0] ?? 0;
    };
    return {
      threadsMax: read(attributes.threadsMax),
      registers: read(attributes.registers),
      localBytes: read(attributes.localBytes),
      sharedBytes: read(attributes.sharedBytes),
    };
  }
}

/** The kernels of one compiled file, in the current context. */
export class KernelModule {
  readonly #driver: CudaDriver;
  readonly #handle: bigint;

  /** Throws DEVICE_UNAVAILABLE for an image that this GPU or driver cannot run. */
  constructor(driver: CudaDriver, cubin: Uint8Array) {
    const out = new BigUint64Array(1);
    // A copy, because a part of another buffer may begin at an odd address.
    driver.run("cuModuleLoadData", out, new Uint8Array(cubin));
    this.#driver = driver;
    this.#handle = out[0] ?? 0n;
  }

  /** The kernel `perigee_<name>`, which must be in the file. */
  kernel(name: string): Kernel {
    const out = new BigUint64Array(1);
    this.#driver.run("cuModuleGetFunction", out, this.#handle, `perigee_${name}`);
    return new Kernel(this.#driver, name, out[0] ?? 0n);
  }

  unload(): void {
    this.#driver.run("cuModuleUnload", this.#handle);
  }
}
