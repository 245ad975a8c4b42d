// Products on tensor cores, one warp at a time, by the instruction that every architecture from
// sm_80 on has. An emulator puts its own in this place (test/devices/cuda/emulator).
#pragma once

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

}  // namespace perigee
