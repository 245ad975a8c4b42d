// GEMM tile kernels of the matrix unit (AMX): up to 16 rows of activations in about the time of
// one, since 16 x 16 sums of 32 or 64 columns are one instruction. Formula, shapes and tests:
// linear.cpp.
//
// M rows · R steps of the last chunk, if it is not whole
//
//   tile     rows x 64 bytes     a step is a 32-bit word: 2 columns of bf16, 4 of i8
//   kRows    M  x 16 steps       rows of x
//   kLeft    16 steps x 16       a chunk of the panel, as it lies in memory: its left outputs,
//   kRight   16 steps x 16       and its right ones
//   kSums    M  x 16, two tiles  f32 or i32
//
// A chunk that is not whole has tiles of its own size, so that nothing beyond the panel is read.
//
// bf16      Of a chunk even and odd columns are summed apart in f32, then added to the sums: a
//           row's bits do not depend on the rows beside it.
// i8        The integers of a group are exact: the bits are those of linear-i8.cpp.
// Bound     Weights from memory. On Granite Rapids 1 to 16 rows of bf16 read 28 GB/s a core;
//           vdpbf16ps gets 28 with one row, 20 with 4 and 12 with 8.
#include <utility>

#include "linear-amx.h"

#if defined(__AMX_TILE__)

namespace perigee {

namespace {

// The intrinsics need literals.
#define kLeftSums 0
#define kRightSums 1
#define kRows 2
#define kLeft 3
#define kRight 4
#define kLastRows 5
#define kLastLeft 6
#define kLastRight 7

/// What this thread's tiles are configured for.
thread_local TileShapes configured;
thread_local bool isConfigured = false;

constexpr int kTileBytes = 64;

/// Shapes for so many rows of activations and steps of a last chunk.
void configure(int rows, int64_t last) {
  TileShapes shapes;
  for (const int tile : {kLeftSums, kRightSums, kRows}) shapes.set(tile, rows, kTileBytes);
  for (const int tile : {kLeft, kRight}) shapes.set(tile, kChunkSteps, kTileBytes);
  if (last > 0) {
    shapes.set(kLastRows, rows, last * 4);
    for (const int tile : {kLastLeft, kLastRight}) shapes.set(tile, last, kTileBytes);
  }
  useTiles(shapes);
}

/// Asks for the lines that belong to a chunk.
void prefetchChunk(Prefetch next, int64_t step) {
  if (next.isAhead()) next.askAhead(step * kPanelRows * 4, kChunkSteps * kPanelRows * 4);
  if (next.bytesPerStep == 0) return;
  for (int64_t i = 0; i < kChunkSteps; ++i) __builtin_prefetch(next.at(step + i), 0, 2);
}

/// Adds the products of `steps` steps of x, whose rows are `stride` bytes apart, and a panel.
#define PERIGEE_ADD_CHUNKS(multiply)                                        \
  for (; step + kChunkSteps <= steps; step += kChunkSteps) {                \
    prefetchChunk(next, step);                                              \
    _tile_loadd(kRows, x + step, stride);                                   \
    _tile_loadd(kLeft, panel + step * kPanelRows, kStepBytes);              \
    multiply(kLeftSums, kRows, kLeft);                                      \
    _tile_loadd(kRight, panel + step * kPanelRows + kLanes, kStepBytes);    \
    multiply(kRightSums, kRows, kRight);                                    \
  }                                                                         \
  if (step < steps) {                                                       \
    _tile_loadd(kLastRows, x + step, stride);                               \
    _tile_loadd(kLastLeft, panel + step * kPanelRows, kStepBytes);          \
    multiply(kLeftSums, kLastRows, kLastLeft);                              \
    _tile_loadd(kLastRight, panel + step * kPanelRows + kLanes, kStepBytes); \
    multiply(kRightSums, kLastRows, kLastRight);                            \
  }

void addBf16(const uint32_t* x, int64_t stride, const uint32_t* panel, int64_t steps,
             Prefetch next) {
  int64_t step = 0;
  PERIGEE_ADD_CHUNKS(_tile_dpbf16ps)
}

/// Signed bytes of x by weights stored plus kWeightOffset.
void addI8(const uint32_t* x, int64_t stride, const uint32_t* panel, int64_t steps,
           Prefetch next) {
  int64_t step = 0;
  PERIGEE_ADD_CHUNKS(_tile_dpbsud)
}

#undef PERIGEE_ADD_CHUNKS

/// Writes the sums, [M, kPanelRows].
void storeSums(void* out) {
  auto* const bytes = static_cast<uint8_t*>(out);
  _tile_stored(kLeftSums, bytes, kStepBytes);
  _tile_stored(kRightSums, bytes + kTileBytes, kStepBytes);
  __asm__ volatile("" : : "r"(out) : "memory");
}

template <int M>
void multiplyBf16(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
                  float* out) {
  const int64_t steps = (columns + 1) / 2;
  configure(M, steps % kChunkSteps);
  _tile_zero(kLeftSums);
  _tile_zero(kRightSums);
  addBf16(x, rowWords(steps) * 4, panel, steps, next);
  storeSums(out);
}

/// Adds a group's integer sums, corrected for the weights' offset, times both scales.
template <int M>
void addScaled(F32 (&totals)[M][kPanelVectors], const int32_t* sums, const uint32_t* offsets,
               const uint32_t* scalesX, const uint32_t* scalesWeight) {
  F32 weight[kPanelVectors];
  std::memcpy(weight, scalesWeight, sizeof weight);
#pragma GCC unroll 16
  for (int row = 0; row < M; ++row) {
    const F32 scaleX = broadcast(bitCast<float>(scalesX[row]));
    const int32_t offset = static_cast<int32_t>(offsets[row]);
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) {
      I32 sum;
      std::memcpy(&sum, sums + row * kPanelRows + v * kLanes, sizeof sum);
      totals[row][v] = fma(toFloat(sum + offset), weight[v] * scaleX, totals[row][v]);
    }
  }
}

template <int M>
void multiplyI8(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
                float* out) {
  constexpr int64_t kGroupSteps = kGroupColumns / 4;
  const int64_t steps = (columns + 3) / 4, stride = rowWords(steps) * 4;
  const uint32_t* correction = x + M * rowWords(steps);
  configure(M, steps % kChunkSteps);
  F32 totals[M][kPanelVectors] = {};
  // Groups take turns, so that one's sums are read while the next one's are made.
  alignas(64) int32_t sums[2][M * kPanelRows];
  for (int64_t start = 0, group = 0; start < steps; start += kGroupSteps, ++group) {
    const int64_t count = steps - start < kGroupSteps ? steps - start : kGroupSteps;
    _tile_zero(kLeftSums);
    _tile_zero(kRightSums);
    addI8(x + start, stride, panel, count, next);
    storeSums(sums[group % 2]);
    next.advance(count, (count + 1) * kPanelRows * 4);
    addScaled<M>(totals, sums[group % 2], correction, correction + M, panel + count * kPanelRows);
    correction += 2 * M;
    panel += (count + 1) * kPanelRows;
  }
  std::memcpy(out, totals, sizeof totals);
}

template <int... Rows>
TileKernel chooseBf16(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiplyBf16<Rows + 1>...};
  return kernels[rows - 1];
}

template <int... Rows>
TileKernel chooseI8(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiplyI8<Rows + 1>...};
  return kernels[rows - 1];
}

}  // namespace

TileKernel matrixKernelBf16(int rows) {
  return chooseBf16(rows, std::make_integer_sequence<int, tileRows(Format::bf16)>());
}

TileKernel matrixKernelI8(int rows) {
  return chooseI8(rows, std::make_integer_sequence<int, tileRows(Format::i8)>());
}

void useTiles(const TileShapes& shapes) {
  if (isConfigured && std::memcmp(&shapes, &configured, sizeof shapes) == 0) return;
  configured = shapes;
  isConfigured = true;
  // The intrinsics do not tell the compiler what memory they read and write.
  __asm__ volatile("" : : "r"(&configured) : "memory");
  _tile_loadconfig(&configured);
}

void releaseMatrixUnit() {
  if (!isConfigured) return;
  _tile_release();
  isConfigured = false;
}

}  // namespace perigee

#endif
