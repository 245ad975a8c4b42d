// Argument passing from TypeScript: one struct by value, in C++ layout
// (src/devices/cuda/kernels/kernel-params.ts). It lies in constant memory. No field is a double,
// because few GPUs have many f64 units.
#pragma once

#include "numbers.h"
#include "stream-order.h"

/// A kernel that TypeScript finds by the name `perigee_<name>`
/// (src/devices/cuda/kernels/kernels.ts).
#define PERIGEE_KERNEL extern "C" __global__ void

namespace perigee {

/// Same order as FORMATS in src/devices/cuda/memory/handles.ts.
enum class Format : int32_t { f32 = 0, bf16 = 1, i8 = 2 };

/// Element types of files and of KV pools, in the order of ELEMENTS in
/// src/devices/cuda/memory/handles.ts.
enum class Element : int32_t { f32 = 0, f16 = 1, bf16 = 2, i8 = 3, fp8 = 4 };

/// One element of a file or a tensor as a float.
__device__ __forceinline__ float loadElement(const void* elements, Element element, int64_t index) {
  switch (element) {
    case Element::f16: return widen(static_cast<const F16*>(elements)[index]);
    case Element::bf16: return widen(static_cast<const Bf16*>(elements)[index]);
    default: return static_cast<const float*>(elements)[index];
  }
}

}  // namespace perigee
