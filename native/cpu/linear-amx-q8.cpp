// q8 GEMM tile kernels of the matrix unit (AMX): 7 to 16 rows by an expanded panel, 32 or 16
// columns an instruction, as far as a scale reaches. The integers are exact: the bits are those of
// linear-packed.cpp. Formula, shapes and tests: linear.cpp.
//
// M rows
//
//   tile     rows x bytes        a step is a 32-bit word of 4 columns
//   kRows    M  x 32 or 16       rows of x
//   kWeight  8 or 4 x 64         steps of a group of the panel, as they lie in memory: 16 outputs
//   kSums    M  x 64, four tiles i32: of two scales for both halves of the panel's 32 outputs
//
// The four tiles of a run are made while those of the run before are scaled and added. f32 sums of
// 16 rows by one half stay in registers for a run, and in memory from run to run: that costs less
// than to load the rows of x for each half. The panel's bytes are signed here, so that no excess is
// to be subtracted.
#include <utility>

#include "linear-amx.h"
#include "expanded-panel.h"

#if defined(__AMX_TILE__)

namespace perigee {

namespace {

// The intrinsics need literals.
#define kRows 4
#define kOtherRows 5
#define kWeight 6
#define kOtherWeight 7

/// Scales of a run: what tiles store is read back much later than what vector instructions store.
constexpr int kRun = 2;

template <int M>
void configureBlocks(int steps) {
  TileShapes shapes;
  for (int tile = 0; tile < kRun * kPanelVectors; ++tile) shapes.set(tile, M, 64);
  for (const int tile : {kRows, kOtherRows}) shapes.set(tile, M, steps * 4);
  for (const int tile : {kWeight, kOtherWeight}) shapes.set(tile, steps, 64);
  useTiles(shapes);
}

/// The sums of two scales, or of the last one alone, [2][kPanelVectors][M, 16]. `x` and `weights`:
/// where the first begins; the second one is `xNext` and `weightsNext` words behind.
template <int M>
inline void multiplyRun(const uint32_t* x, int64_t stride, int64_t xNext, const uint32_t* weights,
                        int64_t weightsNext, bool both, int32_t* sums) {
  constexpr int64_t sumsOfOne = M * kLanes;
  // The intrinsics do not tell the compiler what memory they read and write.
  __asm__ volatile("" : : "r"(weights), "r"(x), "r"(sums) : "memory");
  _tile_zero(0);
  _tile_zero(1);
  _tile_loadd(kRows, x, stride);
  _tile_loadd(kWeight, weights, kStepBytes);
  _tile_dpbssd(0, kRows, kWeight);
  _tile_loadd(kOtherWeight, weights + kLanes, kStepBytes);
  _tile_dpbssd(1, kRows, kOtherWeight);
  if (both) {
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(kOtherRows, x + xNext, stride);
    _tile_loadd(kWeight, weights + weightsNext, kStepBytes);
    _tile_dpbssd(2, kOtherRows, kWeight);
    _tile_loadd(kOtherWeight, weights + weightsNext + kLanes, kStepBytes);
    _tile_dpbssd(3, kOtherRows, kOtherWeight);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + sumsOfOne, 64);
  if (both) {
    _tile_stored(2, sums + 2 * sumsOfOne, 64);
    _tile_stored(3, sums + 3 * sumsOfOne, 64);
  }
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

/// Adds a run's sums to the totals of both halves, which are [M, kPanelRows] at `totals`.
template <typename Source, int M>
inline void addRun(Source weights, bool both, bool isFirst, const int32_t* sums,
                   const uint32_t* corrections, float* totals) {
  constexpr int64_t sumsOfOne = M * kLanes;
#pragma GCC unroll 2
  for (int v = 0; v < kPanelVectors; ++v) {
    // Unrolled, or the compiler would keep them in memory.
    F32 mine[M];
#pragma GCC unroll 16
    for (int row = 0; row < M; ++row) {
      mine[row] = isFirst ? F32{} : load(totals + row * kPanelRows + v * kLanes);
    }
    const int32_t* const half = sums + v * sumsOfOne;
    addScaled<M, 0>(mine, weights, v, half, corrections);
    if constexpr (Source::kShape.scales == 2) {
      addScaled<M, 1>(mine, weights, v, half + kPanelVectors * sumsOfOne, corrections);
    } else if (both) {
      Source second = weights;
      second.begin(1);
      addScaled<M, 0>(mine, second, v, half + kPanelVectors * sumsOfOne,
                      corrections + Source::kShape.corrections() * M);
    }
#pragma GCC unroll 16
    for (int row = 0; row < M; ++row) {
      store(totals + row * kPanelRows + v * kLanes, mine[row]);
    }
  }
}

template <typename Source, int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* out) {
  static_assert(kPanelVectors == 2, "two halves");
  constexpr PanelShape shape = Source::kShape;
  constexpr int64_t runGroups = kRun / shape.scales, groupWords = expandedGroupWords(shape);
  constexpr int steps = kBlockSteps / shape.scales;
  configureBlocks<M>(steps);
  const int64_t rowLength = rowWords((columns + 3) / 4), stride = rowLength * 4;
  const uint32_t* corrections = x + M * rowLength;
  alignas(64) int32_t sums[2][kRun * kPanelVectors * M * kLanes];
  const int64_t groups = blockCount(columns);
  const auto isBoth = [&](int64_t group) { return shape.scales == 2 || group + 1 < groups; };
  const auto start = [&](int64_t group) {
    const int64_t weightsNext = shape.scales == 2 ? steps * kPanelRows : groupWords;
    multiplyRun<M>(x + group * kBlockSteps, stride, steps, panel + group * groupWords, weightsNext,
                   isBoth(group), sums[group / runGroups % 2]);
  };
  start(0);
  for (int64_t group = 0; group < groups; group += runGroups) {
    if (next.bytesPerStep > 0) {
      for (int64_t step = 0; step < runGroups * kBlockSteps; ++step) {
        __builtin_prefetch(next.at(group * kBlockSteps + step), 0, 2);
      }
    }
    if (group + runGroups < groups) start(group + runGroups);
    addRun<Source, M>(Source(panel + group * groupWords), isBoth(group), group == 0,
                      sums[group / runGroups % 2], corrections, out);
    corrections += runGroups * shape.corrections() * M;
  }
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
