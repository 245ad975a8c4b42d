import type { Gpu } from "#devices/cuda/driver";
import type { CudaMemory } from "./memory.ts";

/** Bytes of an i32. */
const counterBytes = 4;

/**
 * [multiprocessors] i32: counters of finished blocks of one kernel, so that the last block finishes
 * their shared result. Zeros: a kernel resets them.
 */
export function allocateArrivals(memory: CudaMemory, gpu: Gpu): bigint {
  const bytes = gpu.multiprocessors * counterBytes;
  const address = memory.allocate(bytes, "counters of arrivals");
  memory.fill(address, bytes, 0);
  return address;
}
