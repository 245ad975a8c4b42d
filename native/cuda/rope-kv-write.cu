// From the attention projection's rows to positioned queries and a filled cache.
//
// Formula  query, key: RMS norm per head (optional), then rope on the first `rotary` dims:
//          pair (i, i + half) turns by the angle of (position, i); the value passes unchanged.
//          Sink queries are the queries turned by min(position, sinkPositionMax)
// Shapes   qkv [T, H + 2K, D]; query [T, H, D]; rope [positions, rotary]: cosines, then sines;
//          positions, slots [T]; cache: kv-cache.h
// Work     a block per token, a warp per head at a time
// Bound    memory: 4 (H + 2K) D bytes read and about as many written per token
// Checked  bench/gpu/smoke.mjs, ropeKvWrite
#include "kv-cache.h"

namespace perigee {

struct RopeKvWriteParams {
  const float* qkv;
  float* query;
  float* sinkQuery;  // null: none
  KvLayer cache;
  const int* positions;
  const int* slots;        // negative: nowhere
  const float* rope;       // null: none
  const float* queryNorm;  // [D], null: none
  const float* keyNorm;
  int heads;
  int rotary;
  int sinkPositionMax;
  float epsilon;
};

namespace {

constexpr int kWarps = 8;
constexpr int kHeadDimMax = 256;
constexpr int kPerLane = kHeadDimMax / kWarp;

/// A head's vector in the registers of a warp: lane l has dims l, l + 32, ...
struct HeadVector {
  float values[kPerLane];

  template <typename Body>
  __device__ static void forDims(int dims, const Body& body) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int d = i * kWarp + static_cast<int>(threadIdx.x % kWarp);
      if (d < dims) body(i, d);
    }
  }

  __device__ void load(const float* from, int dims) {
    forDims(dims, [&](int i, int d) { values[i] = from[d]; });
  }

  __device__ void store(float* to, int dims) const {
    forDims(dims, [&](int i, int d) { to[d] = values[i]; });
  }

  __device__ void normalize(const float* weight, int dims, float epsilon) {
    float squares = 0.0f;
    forDims(dims, [&](int i, int) { squares += values[i] * values[i]; });
    for (int lane = kWarp / 2; lane > 0; lane /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, lane);
    }
    const float scale = 1.0f / sqrtf(squares / static_cast<float>(dims) + epsilon);
    forDims(dims, [&](int i, int d) { values[i] = values[i] * scale * weight[d]; });
  }

  /// `angles`: cosines, then sines. `scratch` [D]: the warp's own, where lanes see each other.
  __device__ void rotate(const float* angles, int rotary, int dims, float* scratch) {
    store(scratch, dims);
    __syncwarp();
    const int half = rotary / 2;
    forDims(rotary, [&](int i, int d) {
      const int pair = d < half ? d : d - half;
      const float cosine = angles[pair];
      const float sine = angles[half + pair];
      const float first = scratch[pair];
      const float second = scratch[half + pair];
      values[i] = d < half ? first * cosine - second * sine : second * cosine + first * sine;
    });
    __syncwarp();
  }

  /// NaN where a dim is NaN or infinite, else the largest magnitude.
  __device__ float largest(int dims) const {
    float most = 0.0f;
    float poison = 0.0f;
    forDims(dims, [&](int i, int) {
      most = fmaxf(most, fabsf(values[i]));
      poison += values[i] * 0.0f;
    });
    for (int lane = kWarp / 2; lane > 0; lane /= 2) {
      poison += __shfl_xor_sync(0xffffffffu, poison, lane);
    }
    return warpMax(most) + poison;
  }
};

/// Writes a key or a value, rounded to the format, zeros behind it. `tokenScale` is written where
/// tokens have scales; `calibrated` counts where they have none.
template <typename T>
__device__ void writeVector(uint8_t* row, const HeadVector& vector, const KvLayer& cache,
                            Bf16* tokenScale, float calibrated) {
  T* const to = reinterpret_cast<T*>(row);
  const int padded = cache.rowBytes / static_cast<int>(sizeof(T));
  float scale = 1.0f;
  if constexpr (kScaled<T>) {
    scale = calibrated;
    if (cache.tokenScales) {
      // Rounded before it divides: what a number stands for is that multiple of the scale as kept.
      const float largest = __fdiv_rn(vector.largest(cache.headDim), kLargest<T>);
      const Bf16 kept = narrowBf16(largest);
      if (threadIdx.x % kWarp == 0) *tokenScale = kept;
      scale = widen(kept);
    }
    if (scale == 0.0f) scale = 1.0f;
  }
  HeadVector::forDims(padded, [&](int i, int d) {
    const float value = d < cache.headDim ? vector.values[i] : 0.0f;
    narrow(to + d, kScaled<T> ? __fdiv_rn(value, scale) : value);
  });
}

}  // namespace

PERIGEE_KERNEL perigee_rope_kv_write(const __grid_constant__ RopeKvWriteParams p) {
  joinStream();
  __shared__ float scratch[kWarps][kHeadDimMax];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t token = blockIdx.x;
  const KvLayer& cache = p.cache;
  const int dims = cache.headDim;
  const int position = p.positions[token];
  const int sinkPosition = min(position, p.sinkPositionMax);
  const int slot = p.slots[token];
  const float* const row = p.qkv + token * (p.heads + 2 * cache.kvHeads) * dims;

  const auto positioned = [&](int head, const float* norm, int place) {
    HeadVector vector;
    vector.load(row + static_cast<int64_t>(head) * dims, dims);
    if (norm != nullptr) vector.normalize(norm, dims, p.epsilon);
    if (p.rope != nullptr) {
      vector.rotate(p.rope + static_cast<int64_t>(place) * p.rotary, p.rotary, dims, scratch[warp]);
    }
    return vector;
  };

  // 1. Queries, and those for the sinks.
  for (int head = warp; head < p.heads; head += kWarps) {
    const int64_t at = (token * p.heads + head) * dims;
    positioned(head, p.queryNorm, position).store(p.query + at, dims);
    if (p.sinkQuery == nullptr) continue;
    positioned(head, p.queryNorm, sinkPosition).store(p.sinkQuery + at, dims);
  }

  // 2. Keys and values of a token that is kept.
  if (slot < 0) return;
  const int block = slot / cache.blockTokens;
  const int offset = slot % cache.blockTokens;
  for (int kvHead = warp; kvHead < cache.kvHeads; kvHead += kWarps) {
    const HeadVector key = positioned(p.heads + kvHead, p.keyNorm, position);
    HeadVector value;
    value.load(row + static_cast<int64_t>(p.heads + cache.kvHeads + kvHead) * dims, dims);
    uint8_t* const keyRow = cache.key(block, offset, kvHead);
    Bf16* const scales = cache.scales(block, offset, kvHead);
    withElement(cache.element, [&](auto element) {
      using T = decltype(element);
      writeVector<T>(keyRow, key, cache, scales, cache.keyScale);
      writeVector<T>(keyRow + cache.toValue(), value, cache, scales + cache.blockTokens,
                     cache.valueScale);
    });
  }
}

}  // namespace perigee
