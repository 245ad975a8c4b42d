// Products of Hopper's tensor cores whose second operand has up to 256 columns: those of
// warpgroup-products.h, whose rules hold here, for tiles of linears. PTX behind functions: an
// emulator puts its own file in this place.
#pragma once

#include "numbers.h"

namespace perigee {

// An asm statement names its operands one by one: nothing but the preprocessor writes that.
// Undefined below.
#define PERIGEE_8(i)                                                                         \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define PERIGEE_16(i) PERIGEE_8(i), PERIGEE_8(i + 8)
#define PERIGEE_32(i) PERIGEE_16(i), PERIGEE_16(i + 16)
#define PERIGEE_64(i) PERIGEE_32(i), PERIGEE_32(i + 32)
#define PERIGEE_NAMES_16                                                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PERIGEE_NAMES_32                                                           \
  PERIGEE_NAMES_16 ", "                                                            \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PERIGEE_NAMES_48                                                           \
  PERIGEE_NAMES_32 ", "                                                            \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define PERIGEE_NAMES_64                                                           \
  PERIGEE_NAMES_48 ", "                                                            \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PERIGEE_NAMES_96                                                             \
  PERIGEE_NAMES_64 ", "                                                              \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define PERIGEE_NAMES_128                                                            \
  PERIGEE_NAMES_96 ", "                                                              \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, " \
  "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "   \
  "%123, %124, %125, %126, %127"
#define PERIGEE_PRODUCT(columns, names, a_place, b_place, adds_place)                            \
  "{\n.reg .pred p;\nsetp.ne.b32 p, " adds_place                                                \
  ", 0;\nwgmma.mma_async.sync.aligned.m64n" columns "k16.f32.bf16.bf16 {" names "}, " a_place \
  ", " b_place ", p, 1, 1, 0, 0;\n}"
#define PERIGEE_OPERANDS "l"(a), "l"(b), "r"(static_cast<int>(adds))

/// sums [64, N] = a [64, 16] times b [16, N] of bf16, both from shared memory with k along rows
/// (panels.h); added to what was there if `adds`. A thread holds what WarpgroupProducts says, N / 2
/// sums.
__device__ __forceinline__ void multiplyShared(float (&sums)[16], uint64_t a, uint64_t b,
                                               bool adds) {
  asm volatile(PERIGEE_PRODUCT("32", PERIGEE_NAMES_16, "%16", "%17", "%18")
               : PERIGEE_16(0)
               : PERIGEE_OPERANDS);
}
__device__ __forceinline__ void multiplyShared(float (&sums)[32], uint64_t a, uint64_t b,
                                               bool adds) {
  asm volatile(PERIGEE_PRODUCT("64", PERIGEE_NAMES_32, "%32", "%33", "%34")
               : PERIGEE_32(0)
               : PERIGEE_OPERANDS);
}
__device__ __forceinline__ void multiplyShared(float (&sums)[48], uint64_t a, uint64_t b,
                                               bool adds) {
  asm volatile(PERIGEE_PRODUCT("96", PERIGEE_NAMES_48, "%48", "%49", "%50")
               : PERIGEE_32(0), PERIGEE_16(32)
               : PERIGEE_OPERANDS);
}
__device__ __forceinline__ void multiplyShared(float (&sums)[64], uint64_t a, uint64_t b,
                                               bool adds) {
  asm volatile(PERIGEE_PRODUCT("128", PERIGEE_NAMES_64, "%64", "%65", "%66")
               : PERIGEE_64(0)
               : PERIGEE_OPERANDS);
}
__device__ __forceinline__ void multiplyShared(float (&sums)[96], uint64_t a, uint64_t b,
                                               bool adds) {
  asm volatile(PERIGEE_PRODUCT("192", PERIGEE_NAMES_96, "%96", "%97", "%98")
               : PERIGEE_64(0), PERIGEE_32(64)
               : PERIGEE_OPERANDS);
}
__device__ __forceinline__ void multiplyShared(float (&sums)[128], uint64_t a, uint64_t b,
                                               bool adds) {
  asm volatile(PERIGEE_PRODUCT("256", PERIGEE_NAMES_128, "%128", "%129", "%130")
               : PERIGEE_64(0), PERIGEE_64(64)
               : PERIGEE_OPERANDS);
}

#undef PERIGEE_8
#undef PERIGEE_16
#undef PERIGEE_32
#undef PERIGEE_64
#undef PERIGEE_NAMES_16
#undef PERIGEE_NAMES_32
#undef PERIGEE_NAMES_48
#undef PERIGEE_NAMES_64
#undef PERIGEE_NAMES_96
#undef PERIGEE_NAMES_128
#undef PERIGEE_PRODUCT
#undef PERIGEE_OPERANDS

}  // namespace perigee
