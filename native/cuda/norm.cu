// RMS norm and layer norm, fused with the residual addition.
//
// Formula  x += delta;  rms: out = x / sqrt(mean(x^2) + eps) * (w + offset)
//          layer: out = (x - mean) / sqrt(variance + eps) * (w + offset) + bias
// Shapes   x, delta, out [T, E]; w, bias [E]
// Work     One block per row; threads keep their columns in registers between the passes. A quad is
//          4 adjacent columns. With rows of up to kUsualQuads quads per thread, there may be more
//          rows than blocks: a block processes every gridDim-th row and loads the next one while it
//          sums the current one, so that memory is never idle at a barrier. The weights are loaded
//          once, while the previous kernel still runs. Rows that are not whole quads, or that
//          exceed the registers, are read again from the cache
// Bound    memory: 8 bytes read and 4 written per element of the residual stream, and the output
// Checked  bench/gpu/smoke.mjs, norm
#include "block-sum.h"
#include "row-quads.h"

namespace perigee {

struct NormParams {
  PackedRows out;  // f32 rows may be x itself
  float* x;
  const float* delta;  // null: none
  const float* weight;
  const float* bias;  // null: none
  int layer;          // 0: rms
  float epsilon;
  float weightOffset;
  int rows;  // T
};

namespace {

/// Quads per thread: `normThreads` of src/devices/cuda/ops/norm.ts sizes blocks for kUsualQuads.
/// Rows too long for its largest block use up to kMostQuads.
constexpr int kUsualQuads = 2;
constexpr int kMostQuads = 4;

__device__ float scaleOf(float squares, const NormParams& p) {
  return 1.0f / sqrtf(squares / static_cast<float>(p.out.columns) + p.epsilon);
}

/// Calls `body(x)` for each element of a quad.
template <typename Body>
__device__ __forceinline__ void forEach(float4& quad, const Body& body) {
  body(quad.x);
  body(quad.y);
  body(quad.z);
  body(quad.w);
}

/// Calls `body(value, other)` for each pair of elements of two quads.
template <typename Body>
__device__ __forceinline__ void forEach(float4& quad, const float4& other, const Body& body) {
  body(quad.x, other.x);
  body(quad.y, other.y);
  body(quad.z, other.z);
  body(quad.w, other.w);
}

/// A row of the residual stream and of `delta`, whose loads are in flight.
template <int kQuads>
struct Incoming {
  RowQuads<kQuads> x;
  RowQuads<kQuads> delta;

  __device__ void load(const NormParams& p, int64_t row) {
    const int columns = p.out.columns;
    x.load(p.x + row * columns, columns);
    if (p.delta != nullptr) delta.loadOnce(p.delta + row * columns, columns);
  }

  /// The row with `delta` added; the sum is also stored to x.
  __device__ RowQuads<kQuads> take(const NormParams& p, int64_t row) {
    const int columns = p.out.columns;
    if (p.delta == nullptr) return x;
    RowQuads<kQuads>::forOwn(columns, [&](int i, int) {
      forEach(x.quads[i], delta.quads[i], [](float& to, float more) { to += more; });
    });
    x.store(p.x + row * columns, columns);
    return x;
  }
};

/// Normalises x, a row in registers, and stores it. `weightAt(i, column)`: weights of a thread's
/// quad i.
template <int kQuads, typename WeightAt>
__device__ __forceinline__ void normRow(const NormParams& p, int64_t row, RowQuads<kQuads>& x,
                                        const WeightAt& weightAt, BlockSums& sums) {
  using Quads = RowQuads<kQuads>;
  const int columns = p.out.columns;

  // 1. The mean (layer norm only).
  if (p.layer) {
    float sum = 0.0f;
    Quads::forOwn(columns, [&](int i, int) {
      forEach(x.quads[i], [&](float& value) { sum += value; });
    });
    const float center = sums.add(sum) / static_cast<float>(columns);
    Quads::forOwn(columns, [&](int i, int) {
      forEach(x.quads[i], [&](float& value) { value -= center; });
    });
  }

  // 2. The variance, in a separate pass: mean(x^2) - mean(x)^2 would cancel where the mean is
  // large.
  float squares = 0.0f;
  Quads::forOwn(columns, [&](int i, int) {
    forEach(x.quads[i], [&](float& value) { squares += value * value; });
  });
  const float scale = scaleOf(sums.add(squares), p);

  // 3. The output, rounded to its format.
  Quads::forOwn(columns, [&](int i, int column) {
    forEach(x.quads[i], weightAt(i, column),
            [&](float& y, float by) { y = y * scale * (by + p.weightOffset); });
    if (p.bias == nullptr) return;
    const float4 bias = *reinterpret_cast<const float4*>(p.bias + column);
    forEach(x.quads[i], bias, [&](float& y, float more) { y += more; });
  });
  x.storePacked(p.out, row);
}

/// Rows of a block; the next row's loads are in flight while the current one is processed.
__device__ void normAhead(const NormParams& p, float* scratch) {
  using Quads = RowQuads<kUsualQuads>;
  BlockSums sums(scratch);

  // 1. The weights, which no kernel writes, before the wait.
  Quads weight;
  weight.load(p.weight, p.out.columns);
  const auto weightAt = [&](int i, int) { return weight.quads[i]; };
  waitForPrevious();

  // 2. Row by row.
  Incoming<kUsualQuads> incoming;
  int row = static_cast<int>(blockIdx.x);
  incoming.load(p, row);
  while (row < p.rows) {
    Quads x = incoming.take(p, row);
    const int next = row + static_cast<int>(gridDim.x);
    if (next < p.rows) incoming.load(p, next);
    normRow(p, row, x, weightAt, sums);
    row = next;
  }
}

/// A row so long that no registers remain for prefetching the next row or for weights.
__device__ void normLong(const NormParams& p, float* scratch) {
  const int row = static_cast<int>(blockIdx.x);
  BlockSums sums(scratch);
  waitForPrevious();
  Incoming<kMostQuads> incoming;
  incoming.load(p, row);
  RowQuads<kMostQuads> x = incoming.take(p, row);
  const auto weightAt = [&](int, int column) {
    return *reinterpret_cast<const float4*>(p.weight + column);
  };
  normRow(p, row, x, weightAt, sums);
}

__device__ void normColumns(const NormParams& p, float* scratch) {
  waitForPrevious();
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;
  float* const x = p.x + row * columns;

  // 1. Residual addition, and the sum for the mean.
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    if (p.delta != nullptr) x[i] += p.delta[row * columns + i];
    sum += x[i];
  }
  // The barriers of blockSum also make every thread's x visible to the others, as the last pass
  // needs.
  const float total = blockSum(sum, scratch);
  const float center = p.layer ? total / static_cast<float>(columns) : 0.0f;

  // 2. The variance, and the output.
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    squares += (x[i] - center) * (x[i] - center);
  }
  const float scale = scaleOf(blockSum(squares, scratch), p);
  p.out.store(row, [&](int i) {
    const float y = (x[i] - center) * scale * (p.weight[i] + p.weightOffset);
    return p.bias == nullptr ? y : y + p.bias[i];
  });
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(1024)
perigee_norm(const __grid_constant__ NormParams p) {
  letNextStart();
  __shared__ float scratch[2 * kWarp];
  const int quads = static_cast<int>(padTo(p.out.columns, kGroupColumns)) / kQuad;
  const int threads = static_cast<int>(blockDim.x);
  const bool isWhole = p.out.columns % kQuad == 0;
  if (isWhole && quads <= kUsualQuads * threads) {
    normAhead(p, scratch);
  } else if (isWhole && quads <= kMostQuads * threads) {
    normLong(p, scratch);
  } else {
    normColumns(p, scratch);
  }
}

}  // namespace perigee
