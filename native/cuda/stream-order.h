// Programmatic dependent launch. Every kernel is launched so that it may start while the previous
// kernel of the stream still runs (src/devices/cuda/kernels/launcher.ts). It waits explicitly; what
// precedes the wait overlaps the end of the previous kernel. Needs sm_90. On older GPUs, and after
// work that is not a kernel of this project, a kernel starts when all earlier work has ended, and
// these functions do nothing.
#pragma once

namespace perigee {

/// Lets the next kernel start as soon as all blocks of this one have called this or ended and there
/// are free resources.
__device__ __forceinline__ void letNextStart() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the previous kernel has ended and its writes are visible. Since that kernel waited
/// too, this covers all earlier kernels. Every block must call it before it ends, before it
/// accesses memory that another kernel writes, and before it writes memory that another kernel
/// reads.
__device__ __forceinline__ void waitForPrevious() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The first call of small kernels that have no work before the wait. A kernel that fills an SM
/// (linear-stream.h) lets the next one start only after its wait, so that its own blocks get their
/// resources first. In this order a decode step of llama-3.1-8b took 4.24 ms at batch 1 and 4.41 at
/// batch 8, in the other order 4.26 and 4.55 (one H200).
__device__ __forceinline__ void joinStream() {
  letNextStart();
  waitForPrevious();
}

}  // namespace perigee
