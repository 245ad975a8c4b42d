// One K step of the GEMM microkernel: a vector of weight words times one activation word,
// broadcast.
//
// A word holds 1 f32, 2 bf16 or 4 i8 columns. Each output adds its columns in the order of the
// steps, for any number of rows, so a row's result does not depend on its batch. A weight word may
// be multiplied in parts, each by an activation word of its own.
#pragma once

#include "linear-tile.h"
#include "params.h"
#include "simd.h"

namespace perigee {

struct WholeWords {
  static constexpr int kParts = 1;
  static U32 part(U32 weight, int) { return weight; }
};

/// f32: one fused multiply-add.
struct DotF32 : WholeWords {
  using Sum = F32;
  struct Word {
    F32 value;
  };
  static Word spread(uint32_t word) { return {broadcast(bitCast<float>(word))}; }
  static Sum dot(Sum sum, U32 weight, Word x) { return fma(bitCast<F32>(weight), x.value, sum); }
};

/// bf16: a weight of the even column, then one of the odd column, widened to f32. Rows were widened
/// when they were packed: here that would take as many instructions as the products.
struct DotWidened : DotF32 {
  static constexpr int kParts = 2;
  static U32 part(U32 pair, int part) { return part == 0 ? pair << 16 : pair & 0xffff0000u; }
};

#if defined(__AVX512BF16__)
/// bf16: two products, summed in f32.
struct DotPairs : WholeWords {
  using Sum = F32;
  struct Word {
    U32 pair;
  };
  static Word spread(uint32_t word) { return {U32{} + word}; }
  static Sum dot(Sum sum, U32 weight, Word x) {
    return _mm512_dpbf16_ps(sum, bitCast<__m512bh>(weight), bitCast<__m512bh>(x.pair));
  }
};
#else
using DotPairs = DotWidened;
#endif

/// i8: four products, summed exactly in i32: 128 columns of at most 127 * 255 stay far below 2^31.
struct DotI8 : WholeWords {
  using Sum = I32;
#if defined(PERIGEE_DOT_BYTES)
  struct Word {
    U32 bytes;
  };
  static Word spread(uint32_t word) { return {U32{} + word}; }
  static Sum dot(Sum sum, U32 weight, Word x) { return dotBytes(sum, weight, x.bytes); }
#elif defined(__AVX2__)
  // vpmaddubsw needs one unsigned operand and adds pairs in 16 bits. |x| * (w with the sign of x)
  // is at most 2 * 127 * 127 = 32258, so the pair sum cannot saturate.
  struct Word {
    __m256i bytes, magnitude;
  };
  static Word spread(uint32_t word) {
    const __m256i bytes = _mm256_set1_epi32(static_cast<int>(word));
    return {bytes, _mm256_abs_epi8(bytes)};
  }
  static Sum dot(Sum sum, U32 weight, Word x) {
    const __m256i signedWeight = _mm256_sign_epi8(bitCast<__m256i>(weight), x.bytes);
    const __m256i pairs = _mm256_maddubs_epi16(x.magnitude, signedWeight);
    return sum + bitCast<I32>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
#else
  struct Word {
    int8x16_t bytes;
  };
  static Word spread(uint32_t word) { return {vreinterpretq_s8_u32(vdupq_n_u32(word))}; }
  static Sum dot(Sum sum, U32 weight, Word x) {
    return bitCast<I32>(
        vdotq_s32(bitCast<int32x4_t>(sum), bitCast<int8x16_t>(weight), x.bytes));
  }
#endif
};

}  // namespace perigee
