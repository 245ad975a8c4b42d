import type { CudaDriver } from "./driver.ts";
import type { Gpu } from "./gpu.ts";

/**
 * A GPU's primary context, shared by the whole process and made current on this thread. Memory,
 * streams and kernels belong to it.
 */
export class PrimaryContext {
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  readonly #handle: bigint;

  /** Retains the context and makes it current. Throws DEVICE_UNAVAILABLE or OUT_OF_MEMORY. */
  constructor(driver: CudaDriver, gpu: Gpu) {
    const handle = new BigUint64Array(1);
    driver.run("cuDevicePrimaryCtxRetain", handle, gpu.device);
    this.driver = driver;
    this.gpu = gpu;
    this.#handle = handle[0] ?? 0n;
    this.makeCurrent();
  }

  /** Makes this context current: later driver calls of this thread use it. */
  makeCurrent(): void {
    this.driver.run("cuCtxSetCurrent", this.#handle);
  }

  /** Waits for all work of the context, on every stream. */
  synchronize(): void {
    this.driver.run("cuCtxSynchronize");
  }

  /** Releases the context; with the last holder the driver frees what is left in it. */
  release(): void {
    this.driver.run("cuDevicePrimaryCtxRelease", this.gpu.device);
  }
}
