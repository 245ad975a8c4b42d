import type { Gpu } from "#devices/cuda/driver";
import type { CudaMemory } from "./memory.ts";

/** Bytes of an i32. */
const counterBytes = 4;

/**
 * [multiprocessors] i32 where blocks of one kernel count who is done, so that the last one finishes
 * what they share. Zeros: a kernel leaves them as it found them.
 */
export function allocateArrivals(memory: CudaMemory, gpu: Gpu): bigint {
  const bytes = gpu.multiprocessors * counterBytes;
  const address = memory.allocate(bytes, "counters of arrivals");
  memory.fill(address, bytes, 0);
  return address;
}
