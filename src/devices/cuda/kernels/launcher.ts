import { assert } from "#base";
import type { CudaDriver, CudaStream, Gpu } from "#devices/cuda/driver";
import type { Kernel } from "./kernel-module.ts";
import type { KernelParams, LaunchOrder, LaunchShape } from "./kernel-params.ts";

/** Most blocks along y and z; along x there may be 2^31 - 1. */
const gridMax = 65_535;

/** Major number of the first architecture whose kernels can start before the previous one ends. */
const overlapMajor = 9;

/** Enqueues kernels on one stream. */
export class Launcher {
  readonly stream: CudaStream;
  readonly driver: CudaDriver;
  readonly #order: LaunchOrder;

  constructor(driver: CudaDriver, stream: CudaStream, gpu: Gpu) {
    this.driver = driver;
    this.stream = stream;
    this.#order = { stream: stream.handle, overlaps: gpu.major >= overlapMajor };
  }

  /**
   * Enqueues `kernel` with the arguments in `params`. Does nothing for a grid without blocks: a
   * step may have no row of a kind.
   */
  launch(kernel: Kernel, shape: LaunchShape, params: KernelParams): void {
    const [x, y = 1, z = 1] = shape.grid;
    if (x === 0 || y === 0 || z === 0) return;
    assert(
      y <= gridMax && z <= gridMax,
      `Cannot launch ${kernel.name}: a grid of [${x}, ${y}, ${z}] is beyond the limit`,
    );
    params.shape(shape, this.#order);
    const status = this.driver.calls.cuLaunchKernelEx(
      params.configAddress,
      kernel.handle,
      params.arrayAddress,
      null,
    );
    this.driver.check("cuLaunchKernelEx", status);
  }
}
