// Hardware limits (memory bandwidth, multiply-add peak), measured beside the kernels in
// bench/kernels.
#include "linear-dot.h"
#include "thread-pool.h"

namespace perigee {

namespace {

struct ReadParams {
  ThreadPool* pool;
  const float* memory;
  Int floats;
  float* out;  // one per task; written so that the compiler keeps the sums
  Int tasks;
};

struct DotParams {
  ThreadPool* pool;
  Int format;
  Int steps;
  float* out;  // one per thread
};

// Independent accumulators, enough to hide the latency of the multiply-add units.
constexpr int kSums = 12;
constexpr int kWords = 64;

#if defined(__AVX2__) && !defined(PERIGEE_DOT_BYTES)
/// The fewest instructions by which AVX2 multiplies bytes: pairs summed in 16 bits. Kernels need
/// more, so that no sum overflows.
struct DotBytesLimit : WholeWords {
  using Sum = I32;
  using Word = U32;
  static Word spread(uint32_t word) { return U32{} + word; }
  static Sum dot(Sum sum, U32 weight, Word x) {
    const __m256i pairs = _mm256_maddubs_epi16(bitCast<__m256i>(x), bitCast<__m256i>(weight));
    return bitCast<I32>(_mm256_add_epi16(bitCast<__m256i>(sum), pairs));
  }
};
#else
using DotBytesLimit = DotI8;
#endif

template <typename Dot>
float multiplyInRegisters(int64_t steps) {
  // 1.0 in f32 and in bf16; the value does not matter in i8. `hide` stops the compiler from seeing
  // that all products are equal and computing only one. It emits no instruction.
  const auto hide = [](U32& vector) {
#if defined(__x86_64__)
    asm volatile("" : "+v"(vector));
#else
    asm volatile("" : "+w"(vector));
#endif
  };
  uint32_t words[kWords];
  for (uint32_t& word : words) word = 0x3f803f80u;
  asm volatile("" : : "r"(words) : "memory");

  typename Dot::Sum sums[kSums] = {};
  const U32 whole = U32{} + words[0];
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 2
    for (int part = 0; part < Dot::kParts; ++part) {
      const typename Dot::Word word = Dot::spread(words[step % kWords]);
      U32 weight = Dot::part(whole, part);
#pragma GCC unroll 16
      for (int i = 0; i < kSums; ++i) {
        hide(weight);
        sums[i] = Dot::dot(sums[i], weight, word);
      }
    }
  }
  float total = 0.0f;
  for (int i = 0; i < kSums; ++i) total += static_cast<float>(sums[i][0]);
  return total;
}

}  // namespace

/// Read bandwidth: reads the memory once on all threads with almost no arithmetic.
PERIGEE_EXPORT void perigee_limit_read(const ReadParams* params) {
  const int64_t taskFloats = params->floats / params->tasks / (4 * kLanes) * (4 * kLanes);
  params->pool->parallelFor(params->tasks, [&](int64_t task, int) {
    const float* const from = params->memory + task * taskFloats;
    F32 sums[4] = {};
    for (int64_t i = 0; i < taskFloats; i += 4 * kLanes) {
      for (int j = 0; j < 4; ++j) sums[j] += load(from + i + j * kLanes);
    }
    params->out[task] = sum(sums[0] + sums[1] + sums[2] + sums[3]);
  });
}

/// Multiply-add peak: every thread runs `steps` times 12 vector products of the format in
/// registers. Multiply-adds in total: threads * steps * 12 * words of a vector * columns of a word.
PERIGEE_EXPORT void perigee_limit_dot(const DotParams* params) {
  const int64_t steps = params->steps;
  params->pool->parallelFor(params->pool->threads(), [&](int64_t task, int) {
    float* const out = params->out + task;
    switch (formatOf(params->format)) {
      case Format::f32: *out = multiplyInRegisters<DotF32>(steps); break;
      case Format::bf16:
        *out = bf16Parts() == 2 ? multiplyInRegisters<DotWidened>(steps)
                                : multiplyInRegisters<DotPairs>(steps);
        break;
      case Format::i8:
      case Format::q8: *out = multiplyInRegisters<DotBytesLimit>(steps); break;
    }
  });
}

/// 32-bit words per vector, used to count the multiply-adds of limit_dot.
PERIGEE_EXPORT int32_t perigee_limit_lanes() { return kLanes; }

}  // namespace perigee
