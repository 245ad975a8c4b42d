import type { Kernels } from "./kernels.ts";
import type { CpuLibrary } from "./library.ts";
import type { CpuMemory } from "./memory.ts";

/** The context of an op besides its input. */
export interface CpuContext {
  readonly kernels: Kernels;
  /** Address of the native thread pool: the first field of every params struct. */
  readonly pool: bigint;
}

/** What packing needs besides the weights. */
export interface PackContext {
  readonly library: CpuLibrary;
  readonly memory: CpuMemory;
  readonly pool: bigint;
}
