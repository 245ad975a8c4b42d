import type { Kernels } from "./kernels.ts";

/** The context of an op besides its input. */
export interface CpuContext {
  readonly kernels: Kernels;
  /** Address of the native thread pool: the first field of every params struct. */
  readonly pool: bigint;
}
