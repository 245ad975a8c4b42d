// q8 GEMM tile kernels for many rows: a panel is expanded to bytes once (expanded-panel.h), then
// multiplied by one tile of rows after another. The same bits as linear-packed.cpp. Formula, shapes
// and tests: linear.cpp.
#include <utility>

#include "expanded-panel.h"
#include "packed-kernel.h"

namespace perigee {

namespace {

template <typename Source, int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiplyBlocks<Source, Rows + 1>...};
  return kernels[rows - 1];
}

void storeWords(uint32_t* to, U32 words) { std::memcpy(to, &words, sizeof words); }

/// The bytes as the kernels of this instruction set multiply them: a matrix unit takes signed ones.
U32 expandedBytes(U32 words, int zero) {
  typedef uint8_t Bytes __attribute__((vector_size(kLanes * 4)));
  if constexpr (!kMatrixUnit) return words;
  return bitCast<U32>(bitCast<Bytes>(words) - static_cast<uint8_t>(zero));
}

/// The bytes of a step, or the words of 16-bit numbers that stand for them.
template <bool kWide>
void storeStep(uint32_t* to, int step, U32 words, int zero) {
#if defined(__AVX2__) && !defined(PERIGEE_DOT_BYTES)
  if constexpr (kWide) {
    const __m256i bytes = bitCast<__m256i>(words);
    const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
    storeWords(to + 2 * step * kPanelRows, bitCast<U32>(even));
    storeWords(to + (2 * step + 1) * kPanelRows, bitCast<U32>(_mm256_srai_epi16(bytes, 8)));
    return;
  }
#endif
  storeWords(to + step * kPanelRows, expandedBytes(words, zero));
}

template <BlockType kType>
void expand(const uint32_t* panel, int64_t columns, uint32_t* out) {
  constexpr PanelShape shape = PackedSource<kType>::kShape;
  constexpr int steps = expandedSteps(shape);
  constexpr int zero = PackedSource<kType>::kTraits.byteZero();
  PackedSource<kType> weights(panel);
  for (int64_t group = 0; group < blockCount(columns); ++group) {
    weights.begin(group);
    for (int v = 0; v < kPanelVectors; ++v) {
      uint32_t* const to = out + v * kLanes;
#pragma GCC unroll 8
      for (int step = 0; step < kBlockSteps; ++step) {
        storeStep<shape.widens()>(to, step, weights.step(step, v), zero);
      }
#pragma GCC unroll 2
      for (int sub = 0; sub < shape.scales; ++sub) {
        storeWords(to + (steps + sub) * kPanelRows, bitCast<U32>(weights.scale(sub, v)));
        if constexpr (shape.mins) {
          const int line = steps + shape.scales + sub;
          storeWords(to + line * kPanelRows, bitCast<U32>(weights.min(sub, v)));
        }
      }
    }
    out += expandedGroupWords(shape);
  }
}

}  // namespace

TileKernel expandedKernel(BlockType type, int rows) {
  return withBlockType(type, [&](auto kType) {
    return choose<ExpandedOf<kType()>>(rows, std::make_integer_sequence<int, kPackedRowsMax>());
  });
}

int64_t expandedWords(BlockType type, int64_t columns) {
  return withBlockType(type, [&](auto kType) {
    return blockCount(columns) * expandedGroupWords(PackedSource<kType()>::kShape);
  });
}

void expandPanel(BlockType type, const uint32_t* panel, int64_t columns, uint32_t* out) {
  withBlockType(type, [&](auto kType) { expand<kType()>(panel, columns, out); });
}

}  // namespace perigee
