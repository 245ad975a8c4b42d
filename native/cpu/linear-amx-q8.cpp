// q8 GEMM tile kernels of the matrix unit (AMX): 5 to 16 rows by an expanded panel, 32 or 16
// columns an instruction, as far as a scale reaches. The integers are exact: the bits are those of
// linear-packed.cpp. Formula, shapes and tests: linear.cpp.
//
// M rows
//
//   tile     rows x bytes        a step is a 32-bit word of 4 columns
//   kRows    M  x 32 or 16       rows of x
//   kWeight  8 or 4 x 64         steps of a group of the panel, as they lie in memory: 16 outputs
//   kSums    M  x 64, four tiles i32: of the scales of four groups, or of two with two scales each
//
// One half of the panel's outputs is done after the other: the f32 sums of 16 rows by 16 outputs
// stay in registers then. The panel's bytes are signed here, so that no excess is to be subtracted.
#include <utility>

#include "linear-amx.h"
#include "expanded-panel.h"

#if defined(__AMX_TILE__)

namespace perigee {

namespace {

// The intrinsics need literals.
#define kRows 4
#define kWeight 5

constexpr int64_t kLineBytes = kPanelRows * 4;
/// Scales whose sums are made in a row: what tiles store is read back much later than what vector
/// instructions store.
constexpr int kRun = 4;

template <int M>
void configureBlocks(int steps) {
  TileShapes shapes;
  for (int tile = 0; tile < kRun; ++tile) shapes.set(tile, M, 64);
  shapes.set(kRows, M, steps * 4);
  shapes.set(kWeight, steps, 64);
  useTiles(shapes);
}

/// The sums of `count` scales, 1 to kRun, [count][M, 16]. `x` and `group`: where the first begins.
template <int M, int kScales>
inline void multiplyRun(const uint32_t* x, int64_t stride, const uint32_t* group,
                        int64_t groupWords, int64_t count, int32_t* sums) {
  constexpr int steps = kBlockSteps / kScales;
  constexpr int64_t sumsOfOne = M * kLanes;
  const auto wordsAt = [&](int at) {
    return group + at / kScales * groupWords + at % kScales * steps * kPanelRows;
  };
  // The intrinsics do not tell the compiler what memory they read and write.
  __asm__ volatile("" : : "r"(group), "r"(x), "r"(sums) : "memory");
#define PERIGEE_MAKE(tile)                              \
  if (tile < count) {                                   \
    _tile_zero(tile);                                   \
    _tile_loadd(kRows, x + tile * steps, stride);       \
    _tile_loadd(kWeight, wordsAt(tile), kLineBytes);    \
    _tile_dpbssd(tile, kRows, kWeight);                 \
  }
  PERIGEE_MAKE(0)
  PERIGEE_MAKE(1)
  PERIGEE_MAKE(2)
  PERIGEE_MAKE(3)
#undef PERIGEE_MAKE
#define PERIGEE_STORE(tile) \
  if (tile < count) _tile_stored(tile, sums + tile * sumsOfOne, 64);
  PERIGEE_STORE(0)
  PERIGEE_STORE(1)
  PERIGEE_STORE(2)
  PERIGEE_STORE(3)
#undef PERIGEE_STORE
  __asm__ volatile("" : : "r"(sums) : "memory");
}

/// Adds the sums of the columns of one scale to the totals, as linear-packed.cpp does.
template <int M, int kSub, typename Source>
__attribute__((always_inline)) inline void addScaled(F32 (&totals)[M], const Source& weights, int v,
                                                     const int32_t* sums,
                                                     const uint32_t* corrections) {
  constexpr PanelShape shape = Source::kShape;
  constexpr int scaleAt = shape.corrections() - 1;
  const F32 scale = weights.scale(kSub, v);
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
    I32 sum;
    std::memcpy(&sum, sums + row * kLanes, sizeof sum);
    const F32 scaleX = broadcast(bitCast<float>(corrections[scaleAt * M + row]));
    totals[row] = fma(toFloat(sum), scale * scaleX, totals[row]);
  }
  if constexpr (shape.mins) {
    const F32 min = weights.min(kSub, v);
#pragma GCC unroll 16
    for (int row = 0; row < M; ++row) {
      const float sum = bitCast<float>(corrections[(shape.scales + kSub) * M + row]);
      totals[row] = fma(min, broadcast(sum), totals[row]);
    }
  }
}

/// One half of the panel's outputs.
template <typename Source, int M>
void multiplyHalf(const uint32_t* x, const uint32_t* panel, int64_t columns, int v, Prefetch next,
                  float* out) {
  constexpr int scales = Source::kShape.scales;
  constexpr int64_t runGroups = kRun / scales, groupWords = expandedGroupWords(Source::kShape);
  const int64_t rowLength = rowWords((columns + 3) / 4), stride = rowLength * 4;
  const uint32_t* corrections = x + M * rowLength;
  // Unrolled here and at the end, or the compiler would keep them in memory.
  F32 totals[M];
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) totals[row] = F32{};
  alignas(64) int32_t sums[2][kRun * M * kLanes];
  Source weights(panel);
  const int64_t groups = blockCount(columns);
  const uint32_t* const words = weights.words() + v * kLanes;
  const auto start = [&](int64_t first) {
    const int64_t count = groups - first < runGroups ? groups - first : runGroups;
    multiplyRun<M, scales>(x + first * kBlockSteps, stride, words + first * groupWords, groupWords,
                           count * scales, sums[first / runGroups % 2]);
  };
  start(0);
  for (int64_t group = 0; group < groups; ++group) {
    if (next.bytesPerStep > 0) {
      for (int step = 0; step < kBlockSteps; ++step) {
        __builtin_prefetch(next.at(group * kBlockSteps + step), 0, 2);
      }
    }
    // The sums of a run are made before those of the run before are added.
    const bool begins = group % runGroups == 0;
    if (begins && group + runGroups < groups) start(group + runGroups);
    weights.begin(group);
    const int32_t* const made =
        sums[group / runGroups % 2] + group % runGroups * scales * M * kLanes;
    addScaled<M, 0>(totals, weights, v, made, corrections);
    if constexpr (scales == 2) {
      addScaled<M, 1>(totals, weights, v, made + M * kLanes, corrections);
    }
    corrections += Source::kShape.corrections() * M;
  }
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) store(out + row * kPanelRows + v * kLanes, totals[row]);
}

template <typename Source, int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* out) {
  static_assert(kPanelVectors == 2, "two halves");
  configureBlocks<M>(kBlockSteps / Source::kShape.scales);
  multiplyHalf<Source, M>(x, panel, columns, 0, next, out);
  multiplyHalf<Source, M>(x, panel, columns, 1, {next.from, 0}, out);
}

/// Fewer rows are not multiplied here.
constexpr int kRowsLeast = kPackedRowsMax + 1;

template <typename Source, int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiply<Source, Rows + kRowsLeast>...};
  return kernels[rows - kRowsLeast];
}

}  // namespace

TileKernel matrixKernelQ8(BlockType type, int rows) {
  return withBlockType(type, [&](auto kType) {
    constexpr int count = tileRows(Format::q8) - kRowsLeast + 1;
    return choose<ExpandedOf<kType()>>(rows, std::make_integer_sequence<int, count>());
  });
}

}  // namespace perigee

#endif
