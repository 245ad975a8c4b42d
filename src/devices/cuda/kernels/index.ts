/**
 * devices/cuda/kernels: kernels: compiled by NVRTC, cached on disk, launched.
 *
 *   kernel-sources.ts, kernel-text.ts, kernel-names.ts   files of native/cuda
 *   nvrtc.ts             the compiler: compile-pool.ts and compile-thread.ts run it on threads
 *   kernel-cache.ts      compiled kernels on disk; kernels.ts: all of a device
 *   kernel-module.ts, kernel-params.ts, launcher.ts   loaded code, arguments, launches
 *   tensor-map.ts        descriptors of tensors for TMA
 *   row-limits.ts        thread and row limits of kernels
 *
 * @module
 */
export { KernelCache } from "./kernel-cache.ts";
export { Kernel } from "./kernel-module.ts";
export type { KernelName } from "./kernel-names.ts";
export { KernelParams, type LaunchShape, PACKED_ROWS, type ParamKind } from "./kernel-params.ts";
export { type KernelProgress, type Kernels, type LoadedKernels, loadKernels } from "./kernels.ts";
export { Launcher } from "./launcher.ts";
export { Nvrtc } from "./nvrtc.ts";
export { ROW_PART, ROW_THREADS, STREAM_ROWS_MAX } from "./row-limits.ts";
export { TENSOR_MAP, tensorMapFields } from "./tensor-map.ts";
