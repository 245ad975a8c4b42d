// One vector type per instruction set, so that each op is written once.
//
// F32 holds kLanes floats: 16 (AVX-512), 8 (AVX2) or 4 (NEON). Arithmetic, comparisons and `?:` use
// the compiler's vector extension (GCC and Clang); intrinsics are used only where it has no
// operator. Every conversion rounds to nearest, ties to even, as the TypeScript side does.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#else
#error "perigee: no vector code for this target; the reference device runs there"
#endif

namespace perigee {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
constexpr int kVectorRegisters = 32;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
constexpr int kVectorRegisters = 16;
#else
constexpr int kLanes = 4;
constexpr int kVectorRegisters = 32;
#endif

typedef float F32 __attribute__((vector_size(kLanes * 4)));
typedef int32_t I32 __attribute__((vector_size(kLanes * 4)));
typedef uint32_t U32 __attribute__((vector_size(kLanes * 4)));
typedef uint64_t U64 __attribute__((vector_size(kLanes * 4)));
typedef uint16_t U16 __attribute__((vector_size(kLanes * 2)));
typedef int16_t I16 __attribute__((vector_size(kLanes * 2)));
typedef int8_t I8 __attribute__((vector_size(kLanes)));
typedef uint8_t U8 __attribute__((vector_size(kLanes)));

template <typename To, typename From>
inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bitCast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define PERIGEE_DOT_BYTES

/// Adds the products of four unsigned and four signed bytes to each lane, without saturation.
inline I32 dotBytes(I32 sum, U32 bytes, U32 signedBytes) {
#if defined(__AVX512VNNI__)
  return bitCast<I32>(_mm512_dpbusd_epi32(bitCast<__m512i>(sum), bitCast<__m512i>(bytes),
                                          bitCast<__m512i>(signedBytes)));
#else
  return bitCast<I32>(_mm256_dpbusd_avx_epi32(bitCast<__m256i>(sum), bitCast<__m256i>(bytes),
                                              bitCast<__m256i>(signedBytes)));
#endif
}
#endif

/// Has the compiler make `sum` here. GCC orders a chain of integer additions anew, as a tree, and
/// then keeps all of its terms in memory.
template <typename Vector>
inline void makeHere(Vector& sum) {
#if defined(__ARM_NEON)
  __asm__("" : "+w"(sum));
#else
  __asm__("" : "+x"(sum));
#endif
}

// Loads and stores accept any alignment.

inline F32 load(const float* from) {
  F32 vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}

inline void store(float* to, F32 vector) { std::memcpy(to, &vector, sizeof vector); }

/// An intrinsic, because F32{} + value would be an addition, which turns -0 into 0.
inline F32 broadcast(float value) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(value);
#elif defined(__AVX2__)
  return _mm256_set1_ps(value);
#else
  return vdupq_n_f32(value);
#endif
}

/// Loads the first `count` lanes (0 to kLanes); the others are 0.
inline F32 loadFirst(const float* from, int count) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from);
#else
  F32 vector = {};
  for (int lane = 0; lane < count; ++lane) vector[lane] = from[lane];
  return vector;
#endif
}

/// Writes only the first `count` lanes (0 to kLanes).
inline void storeFirst(float* to, F32 vector, int count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), vector);
#else
  for (int lane = 0; lane < count; ++lane) to[lane] = vector[lane];
#endif
}

/// a * b + c, rounded once, on every instruction set and with any compiler flags.
inline F32 fma(F32 a, F32 b, F32 c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return vfmaq_f32(c, a, b);
#endif
}

/// Returns b where either operand is NaN, as the x86 instructions do.
inline F32 max(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
inline F32 min(F32 a, F32 b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
inline F32 abs(F32 a) { return bitCast<F32>(bitCast<U32>(a) & 0x7fffffffu); }

inline F32 sqrt(F32 a) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(a);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(a);
#else
  return vsqrtq_f32(a);
#endif
}

#if defined(__AVX512F__) || defined(__AVX2__)

/// The lanes of a vector folded into one, the upper half upon the lower one, until one is left: so
/// the order depends only on the number of lanes. Lane 0 of the result counts.
template <typename Fold>
inline __m128 foldLanes(F32 a, const Fold& fold) {
#if defined(__AVX512F__)
  // The forms with a mask: GCC 12 warns about uninitialised memory for the plain ones.
  const __m256d lower = _mm512_maskz_extractf64x4_pd(0xff, _mm512_castps_pd(a), 0);
  const __m256d upper = _mm512_maskz_extractf64x4_pd(0xff, _mm512_castps_pd(a), 1);
  const __m256 eight = fold(_mm256_castpd_ps(lower), _mm256_castpd_ps(upper));
#else
  const __m256 eight = a;
#endif
  const __m128 four = fold(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = fold(four, _mm_movehl_ps(four, four));
  return fold(two, _mm_movehdup_ps(two));
}

inline float sum(F32 a) {
  return _mm_cvtss_f32(foldLanes(a, [](auto low, auto high) { return low + high; }));
}

struct FoldMax {
  __m256 operator()(__m256 low, __m256 high) const { return _mm256_max_ps(low, high); }
  __m128 operator()(__m128 low, __m128 high) const { return _mm_max_ps(low, high); }
};

inline float maxLane(F32 a) { return _mm_cvtss_f32(foldLanes(a, FoldMax())); }

inline int32_t sum(I32 a) {
  const auto add = [](auto low, auto high) {
    typedef int32_t Words __attribute__((vector_size(sizeof(low))));
    return bitCast<decltype(low)>(bitCast<Words>(low) + bitCast<Words>(high));
  };
  return _mm_cvtsi128_si32(_mm_castps_si128(foldLanes(bitCast<F32>(a), add)));
}

#else

inline float sum(F32 a) {
  const float32x2_t two = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

inline float maxLane(F32 a) {
  float lanes[kLanes];
  store(lanes, a);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) {
      lanes[lane] = lanes[lane] > lanes[lane + width] ? lanes[lane] : lanes[lane + width];
    }
  }
  return lanes[0];
}

inline int32_t sum(I32 a) { return vaddvq_s32(bitCast<int32x4_t>(a)); }

#endif

/// Nearest integer, ties to even, for |a| < 2^22: adding 1.5 * 2^23 leaves no fraction bits.
inline F32 roundEven(F32 a) {
  const float magic = 12582912.0f;
  return (a + magic) - magic;
}

/// kLanes bytes as numbers of 32 bits. GCC 12 makes 60 instructions of a vector conversion here.
template <bool kSigned>
inline I32 loadBytes(const uint8_t* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return bitCast<I32>(kSigned ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return bitCast<I32>(kSigned ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes));
#else
  if constexpr (kSigned) {
    I8 bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, I32);
  } else {
    U8 bytes;
    std::memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, I32);
  }
#endif
}

inline I32 toInt(F32 whole) { return __builtin_convertvector(whole, I32); }
inline F32 toFloat(I32 a) { return __builtin_convertvector(a, F32); }

/// Both halves of the 64-bit product of each lane with `b`.
inline void multiplyWide(U32 a, uint32_t b, U32& low, U32& high) {
#if defined(__AVX512F__) || defined(__AVX2__)
  // The products of even lanes and of odd ones; each instruction reads the lower half of 64 bits.
#if defined(__AVX512F__)
  const auto product = [b](U64 wide) {
    return bitCast<U64>(_mm512_maskz_mul_epu32(0xff, bitCast<__m512i>(wide), _mm512_set1_epi64(b)));
  };
#else
  const auto product = [b](U64 wide) {
    return bitCast<U64>(_mm256_mul_epu32(bitCast<__m256i>(wide), _mm256_set1_epi64x(b)));
  };
#endif
  const uint64_t lower = 0xffffffff;
  const U64 even = product(bitCast<U64>(a));
  const U64 odd = product(bitCast<U64>(a) >> 32);
  low = bitCast<U32>((even & lower) | (odd << 32));
  high = bitCast<U32>((even >> 32) | (odd & ~lower));
#else
  const uint32x4_t lanes = bitCast<uint32x4_t>(a);
  const uint32x4_t front = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(lanes), b));
  const uint32x4_t back = vreinterpretq_u32_u64(vmull_n_u32(vget_high_u32(lanes), b));
  low = bitCast<U32>(vuzp1q_u32(front, back));
  high = bitCast<U32>(vuzp2q_u32(front, back));
#endif
}

/// Bit i is set if lane i is at least `least`.
inline uint32_t lanesFrom(U32 a, uint32_t least) {
#if defined(__AVX512F__)
  return _mm512_cmpge_epu32_mask(bitCast<__m512i>(a), _mm512_set1_epi32(static_cast<int>(least)));
#elif defined(__AVX2__)
  const I32 is = a >= least;
  return static_cast<uint32_t>(_mm256_movemask_ps(bitCast<__m256>(is)));
#else
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= (a[lane] >= least ? 1u : 0u) << lane;
  return bits;
#endif
}

// bf16: the upper half of an f32.

inline F32 widenBf16(U16 halves) {
  return bitCast<F32>(__builtin_convertvector(halves, U32) << 16);
}

inline U16 narrowBf16(F32 a) {
  const U32 bits = bitCast<U32>(a);
  const U32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const U32 quietNan = (bits >> 16) | 0x40u;
  return __builtin_convertvector(a == a ? rounded : quietNan, U16);
}

inline F32 loadBf16(const uint16_t* from) {
  U16 halves;
  std::memcpy(&halves, from, sizeof halves);
  return widenBf16(halves);
}

inline void storeBf16(uint16_t* to, F32 a) {
  const U16 halves = narrowBf16(a);
  std::memcpy(to, &halves, sizeof halves);
}

inline float widenBf16(uint16_t half) { return bitCast<float>(static_cast<uint32_t>(half) << 16); }

inline uint16_t narrowBf16(float value) {
  const uint32_t bits = bitCast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// f16: IEEE half precision, converted by the processor's instructions.

inline F32 loadF16(const uint16_t* from) {
#if defined(__AVX512F__)
  // The form with a full mask: GCC 12 warns about uninitialised memory for the plain form.
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#endif
}

/// fp8 (e4m3fn) numbers times 2^-8, exactly. Shifted left by 7 bits they are f16 numbers, whose
/// exponent bias is larger by 8; this holds for subnormal numbers too. The NaN code never occurs
/// here.
inline F32 loadFp8(const uint8_t* from) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m256i moved = _mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7);
  return _mm512_maskz_cvtph_ps(0xffff, _mm256_and_si256(moved, _mm256_set1_epi16(-0x4001)));
#elif defined(__AVX2__)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  const __m128i moved = _mm_slli_epi16(_mm_cvtepi8_epi16(bytes), 7);
  return _mm256_cvtph_ps(_mm_and_si128(moved, _mm_set1_epi16(-0x4001)));
#else
  int32_t four;
  std::memcpy(&four, from, sizeof four);
  const int16x8_t words = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)));
  const int16x4_t moved = vand_s16(vshl_n_s16(vget_low_s16(words), 7), vdup_n_s16(-0x4001));
  return vcvt_f32_f16(vreinterpret_f16_s16(moved));
#endif
}

inline void storeF16(uint16_t* to, F32 a) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
#else
  vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(a)));
#endif
}

inline float widenF16(uint16_t half) {
#if defined(__AVX2__)
  return _cvtsh_ss(half);
#else
  return static_cast<float>(bitCast<__fp16>(half));
#endif
}

inline uint16_t narrowF16(float value) {
#if defined(__AVX2__)
  return static_cast<uint16_t>(_cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT));
#else
  return bitCast<uint16_t>(static_cast<__fp16>(value));
#endif
}

}  // namespace perigee
