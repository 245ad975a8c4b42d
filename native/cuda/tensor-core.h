// Warp-level matrix products (mma.sync), available from sm_80 on, and the loads and copies that
// feed them. An emulator substitutes its own file (test/devices/cuda/emulator).
#pragma once

#include "numbers.h"

namespace perigee {

/// sum [16, 8] f32 += a [16, 16] bf16 times b [16, 8] bf16. With g = lane / 4 and t = lane % 4, a
/// lane holds
///   a    (row g, k 2t and 2t + 1), (row g + 8, the same k), then both for k + 8
///   b    (k 2t and 2t + 1, column g), then for k + 8
///   sum  (row g, columns 2t and 2t + 1), then both for row g + 8
__device__ __forceinline__ void multiplyAdd(float (&sum)[4], const unsigned (&a)[4],
                                            const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same, overloaded by element type.
__device__ __forceinline__ void multiplyAdd(float (&sum)[4], const unsigned (&a)[4],
                                            const unsigned (&b)[2], Bf16) {
  multiplyAdd(sum, a, b);
}

__device__ __forceinline__ void multiplyAdd(float (&sum)[4], const unsigned (&a)[4],
                                            const unsigned (&b)[2], F16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// sum [16, 8] i32 = `begin` + a [16, 16] i8 times b [16, 8] i8, exactly. A lane holds
///   a    (row g, k 4t to 4t + 3), (row g + 8, the same k)
///   b    (k 4t to 4t + 3, column g)
///   sum  as above
__device__ __forceinline__ void multiplyAddS8(int (&sum)[4], const unsigned (&a)[2], unsigned b,
                                              int begin) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
      : "=r"(sum[0]), "=r"(sum[1]), "=r"(sum[2]), "=r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(begin));
}

/// Two adjacent elements of a fragment, rounded to nearest; the lower column is in the lower half.
__device__ __forceinline__ unsigned packPair(float lower, float upper, Bf16) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
}

__device__ __forceinline__ unsigned packPair(float lower, float upper, F16) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(upper), "f"(lower));
  return pair;
}

/// 2^x by the special function unit: relative error 2^-22; 0 for -infinity and for results below
/// 2^-126.
__device__ __forceinline__ float powerOfTwo(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// Transposes an [8, 8] matrix of 16-bit elements: a lane that held (row g, columns 2t and 2t + 1)
/// gets (rows 2t and 2t + 1, column g).
__device__ __forceinline__ unsigned transposeMatrix(unsigned pair) {
  unsigned transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

/// a * b + c on two bf16 each, rounded once.
__device__ __forceinline__ unsigned multiplyAddPair(unsigned a, unsigned b, unsigned c) {
  unsigned pair;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(pair) : "r"(a), "r"(b), "r"(c));
  return pair;
}

/// A shared memory address. It is 32 bits wide, so address arithmetic is too.
using SharedAddress = unsigned;

__device__ __forceinline__ SharedAddress sharedAddress(const void* shared) {
  return static_cast<SharedAddress>(__cvta_generic_to_shared(shared));
}

/// Loads four [8, 8] matrices of 16-bit elements. Lane i passes the address of row i % 8 of matrix
/// i / 8, 16 bytes at a multiple of 16. With g and t as above it gets (row g, columns 2t and 2t +
/// 1) of each matrix.
__device__ __forceinline__ void loadMatrix(unsigned (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// The same with the matrices transposed: a lane gets (rows 2t and 2t + 1, column g) of each.
__device__ __forceinline__ void loadMatrixTransposed(unsigned (&to)[4], SharedAddress row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}

/// Starts an asynchronous copy of 16 bytes to shared memory, bypassing L1: `bytes` of them (0 to
/// 16), then zeros. With 0 nothing is read, but `from` must be a valid address.
__device__ __forceinline__ void copyAsync(SharedAddress to, const void* from, int bytes = 16) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}

/// Groups all copies that this thread started since the last group.
__device__ __forceinline__ void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most the newest kPending groups of this thread are in flight. Other threads see
/// the data after a barrier.
template <int kPending>
__device__ __forceinline__ void waitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace perigee
