// q8 GEMM tile kernels of the matrix unit (AMX): 5 to 16 rows by an expanded panel, 32 or 16 columns
// an instruction, as far as a scale reaches. The integers are exact: the bits are those of
// linear-packed.cpp. Formula, shapes and tests: linear.cpp.
//
// M rows
//
//   tile     rows x bytes        a step is a 32-bit word of 4 columns
//   kRows    M  x 32 or 16       rows of x
//   kWeight  8 or 4 x 64         steps of a group of the panel, as they lie in memory: 16 outputs
//   kSums    M  x 64, four tiles i32: left and right outputs, of one group and of the next
#include <utility>

#include "linear-amx.h"
#include "expanded-panel.h"

#if defined(__AMX_TILE__)

namespace perigee {

namespace {

// The intrinsics need literals.
#define kSums0 0
#define kSums1 1
#define kSums2 2
#define kSums3 3
#define kRows 4
#define kLeft 5
#define kRight 6

constexpr int64_t kLineBytes = kPanelRows * 4;

template <int M>
void configureBlocks(int steps) {
  TileShapes shapes;
  for (const int tile : {kSums0, kSums1, kSums2, kSums3}) shapes.set(tile, M, 64);
  shapes.set(kRows, M, steps * 4);
  for (const int tile : {kLeft, kRight}) shapes.set(tile, steps, 64);
  useTiles(shapes);
}

#define PERIGEE_MULTIPLY(left, right, sums)                              \
  _tile_zero(left);                                                      \
  _tile_zero(right);                                                     \
  _tile_loadd(kRows, x, stride);                                         \
  _tile_loadd(kLeft, words, kLineBytes);                                 \
  _tile_dpbsud(left, kRows, kLeft);                                      \
  _tile_loadd(kRight, words + kLanes, kLineBytes);                       \
  _tile_dpbsud(right, kRows, kRight);                                    \
  _tile_stored(left, sums, kLineBytes);                                  \
  _tile_stored(right, reinterpret_cast<uint8_t*>(sums) + 64, kLineBytes); \
  __asm__ volatile("" : : "r"(sums) : "memory");

/// sums = rows of x by the steps at `words`. Two sets of tiles take turns, so that one set's sums
/// are stored while the other's are made.
void multiplySteps(const uint32_t* x, int64_t stride, const uint32_t* words, bool odd,
                   int32_t* sums) {
  __asm__ volatile("" : : "r"(words), "r"(x) : "memory");
  if (odd) {
    PERIGEE_MULTIPLY(kSums2, kSums3, sums)
  } else {
    PERIGEE_MULTIPLY(kSums0, kSums1, sums)
  }
}

#undef PERIGEE_MULTIPLY

/// Adds the sums of the columns of one scale to the totals, as linear-packed.cpp does.
template <int M, int kSub, typename Source>
void addScaled(F32 (&totals)[M][kPanelVectors], const Source& weights, const int32_t* sums,
               const uint32_t* corrections) {
  constexpr PanelShape shape = Source::kShape;
  F32 scales[kPanelVectors], mins[kPanelVectors];
  for (int v = 0; v < kPanelVectors; ++v) {
    scales[v] = weights.scale(kSub, v);
    if constexpr (shape.mins) mins[v] = weights.min(kSub, v);
  }
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
    const auto rowSum = static_cast<int32_t>(
        shape.scales == 1 ? corrections[row] + corrections[M + row] : corrections[kSub * M + row]);
    const int32_t offset = -weights.byteZero() * rowSum;
    const float scale = bitCast<float>(corrections[2 * M + row]);
    const F32 scaleX = broadcast(scale);
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) {
      I32 sum;
      std::memcpy(&sum, sums + row * kPanelRows + v * kLanes, sizeof sum);
      totals[row][v] = fma(toFloat(sum + offset), scales[v] * scaleX, totals[row][v]);
    }
    if constexpr (shape.mins) {
      const F32 sumX = broadcast(scale * static_cast<float>(rowSum));
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) {
        totals[row][v] = fma(mins[v], sumX, totals[row][v]);
      }
    }
  }
}

template <typename Source, int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* out) {
  constexpr PanelShape shape = Source::kShape;
  constexpr int steps = kBlockSteps / shape.scales;
  const int64_t rowLength = rowWords((columns + 3) / 4), stride = rowLength * 4;
  const uint32_t* corrections = x + M * rowLength;
  configureBlocks<M>(steps);
  F32 totals[M][kPanelVectors] = {};
  alignas(64) int32_t sums[2][M * kPanelRows];
  Source weights(panel);
  const int64_t groups = blockCount(columns);
  for (int64_t group = 0; group < groups; ++group) {
    for (int step = 0; step < kBlockSteps; ++step) {
      __builtin_prefetch(next.at(group * kBlockSteps + step), 0, 2);
    }
    weights.begin(group);
    const uint32_t* const words = weights.words();
    const uint32_t* const xGroup = x + group * kBlockSteps;
    if constexpr (shape.scales == 1) {
      multiplySteps(xGroup, stride, words, group % 2 == 1, sums[group % 2]);
      addScaled<M, 0>(totals, weights, sums[group % 2], corrections);
    } else {
      multiplySteps(xGroup, stride, words, false, sums[0]);
      multiplySteps(xGroup + steps, stride, words + steps * kPanelRows, true, sums[1]);
      addScaled<M, 0>(totals, weights, sums[0], corrections);
      addScaled<M, 1>(totals, weights, sums[1], corrections);
    }
    corrections += kBlockCorrections * M;
  }
  std::memcpy(out, totals, sizeof totals);
}

template <typename Source, int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiply<Source, Rows + 1>...};
  return kernels[rows - 1];
}

}  // namespace

TileKernel matrixKernelQ8(BlockType type, int rows) {
  return withBlockType(type, [&](auto kType) {
    return choose<ExpandedOf<kType()>>(rows,
                                       std::make_integer_sequence<int, tileRows(Format::q8)>());
  });
}

}  // namespace perigee

#endif
