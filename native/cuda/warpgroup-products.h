// Hopper's asynchronous warpgroup products (wgmma): a warpgroup multiplies 64 rows at once while
// its threads continue. The PTX is wrapped in functions, so that an emulator can substitute its own
// file.
//
// A group of products begins with openProducts and ends with closeProducts. Until waitProducts
// returns, the registers that it reads or writes must not be accessed, and the shared memory that
// it reads must not change.
#pragma once

#include "numbers.h"

namespace perigee {

/// Orders earlier register accesses before the products that follow.
__device__ __forceinline__ void openProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void closeProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most the last kGroups groups are in flight.
template <int kGroups>
__device__ __forceinline__ void waitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}

/// Keeps the compiler from moving register accesses across this point.
template <int kCount>
__device__ __forceinline__ void pinRegisters(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pinRegisters(uint32_t (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

/// Makes the compiler compute `weight`, which is not negative, before it waits for products:
/// otherwise it moves the wait ahead of all independent code. The store never executes.
__device__ __forceinline__ void computeFirst(float weight) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}"
      :
      : "f"(weight), "r"(0)
      : "memory");
}

// An asm statement lists its operands one by one, and the element type is part of the instruction's
// name, so these must be macros. Undefined below.
#define PERIGEE_8(sums, i)                                                                   \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define PERIGEE_32(sums, i) \
  PERIGEE_8(sums, i), PERIGEE_8(sums, i + 8), PERIGEE_8(sums, i + 16), PERIGEE_8(sums, i + 24)
#define PERIGEE_NAMES_32                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define PERIGEE_NAMES_64                                                              \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, " \
  "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "  \
  "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "  \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define PERIGEE_SHARED_128(type)                                                        \
  asm volatile(                                                                         \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                      \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " PERIGEE_NAMES_64 \
      ", %64, %65, p, 1, 1, 0, 0;\n}"                                                   \
      : PERIGEE_32(sums, 0), PERIGEE_32(sums, 32)                                       \
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)))
#define PERIGEE_REGISTERS_128(type)                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " " PERIGEE_NAMES_64 \
               ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"                                        \
               : PERIGEE_32(sums, 0), PERIGEE_32(sums, 32)                                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define PERIGEE_REGISTERS_64(type)                                                              \
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " " PERIGEE_NAMES_32 \
               ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                       \
               : PERIGEE_32(sums, 0)                                                            \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/// Products of elements T, Bf16 or F16. Of sums [64, N] a thread of a warpgroup holds, with g =
/// lane / 4 and t = lane % 4,
///   sums[4 j + i]   (row 16 warp + g, column 8 j + 2 t + i), i < 2; i = 2, 3: the same in row + 8
template <typename T>
struct WarpgroupProducts;

template <>
struct WarpgroupProducts<Bf16> {
  /// sums [64, 128] = a [64, 16] times b [16, 128], both in shared memory with k along rows
  /// (panels.h); accumulates if `adds`.
  static __device__ __forceinline__ void ofShared(float (&sums)[64], uint64_t a, uint64_t b,
                                                  bool adds) {
    PERIGEE_SHARED_128("bf16");
  }

  /// sums [64, N] += a [64, 16] times b [16, N], with k of b across rows. Of a, a thread holds the
  /// pairs (row 16 warp + g, k 2 t and 2 t + 1), (row + 8, the same k), then both for k + 8.
  static __device__ __forceinline__ void ofRegisters(float (&sums)[64], const uint32_t (&a)[4],
                                                     uint64_t b) {
    PERIGEE_REGISTERS_128("bf16");
  }
  static __device__ __forceinline__ void ofRegisters(float (&sums)[32], const uint32_t (&a)[4],
                                                     uint64_t b) {
    PERIGEE_REGISTERS_64("bf16");
  }

  /// Two numbers rounded to nearest, the first in the lower half.
  static __device__ __forceinline__ uint32_t pair(float low, float high) {
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
  }
};

template <>
struct WarpgroupProducts<F16> {
  static __device__ __forceinline__ void ofShared(float (&sums)[64], uint64_t a, uint64_t b,
                                                  bool adds) {
    PERIGEE_SHARED_128("f16");
  }
  static __device__ __forceinline__ void ofRegisters(float (&sums)[64], const uint32_t (&a)[4],
                                                     uint64_t b) {
    PERIGEE_REGISTERS_128("f16");
  }
  static __device__ __forceinline__ void ofRegisters(float (&sums)[32], const uint32_t (&a)[4],
                                                     uint64_t b) {
    PERIGEE_REGISTERS_64("f16");
  }
  static __device__ __forceinline__ uint32_t pair(float low, float high) {
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
  }
};

#undef PERIGEE_8
#undef PERIGEE_32
#undef PERIGEE_NAMES_32
#undef PERIGEE_NAMES_64
#undef PERIGEE_SHARED_128
#undef PERIGEE_REGISTERS_128
#undef PERIGEE_REGISTERS_64

/// 2^x, within 2 units in the last place; subnormal results are 0.
__device__ __forceinline__ float powerOfTwo(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

}  // namespace perigee
