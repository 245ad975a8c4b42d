// Rope and KV cache write: rotates queries and keys of the attention projection and fills the
// cache. Any head dim, any rotated part of it. Completely rotated heads have faster kernels
// (rope-kv-write-pairs.cu).
//
// Formula  query, key: RMS norm per head (optional), then rope on the first `rotary` dims: pair (i,
//          i + half) is rotated by the angle of (position, i). Values are copied. Sink queries are
//          the queries rotated by min(position, sinkPositionMax) instead.
// Shapes   qkv [T, H + 2K, D]; query [T, H, D]; rope [positions, rotary]: cosines, then sines;
//          positions, slots [T]; cache: kv-pool.h
// Work     one warp per token and head of queries, keys or values; a block is kWarps heads of a
//          token
// Bound    memory: 4 (H + 2K) D bytes read and about as many written per token
// Checked  bench/gpu/smoke.mjs, ropeKvWrite
#include "rope-kv-write.h"

namespace perigee {

namespace {

constexpr int kWarps = 8;
constexpr int kHeadDimMax = 256;
constexpr int kPerLane = kHeadDimMax / kWarp;

/// A head's vector in the registers of a warp: lane l holds kWide dims from kWide l on, then kWide
/// dims from kWide (l + 32) on, and so on. kWide is 4, or 1 where rows are not 16-byte aligned.
template <int kWide>
struct HeadVector {
  float values[kPerLane];

  template <typename Body>
  __device__ static void forDims(int dims, const Body& body) {
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int lane = static_cast<int>(threadIdx.x % kWarp);
      const int d = (i / kWide * kWarp + lane) * kWide + i % kWide;
      if (d < dims) body(i, d);
    }
  }

  /// The same for kWide dims at once; `dims` is a multiple of kWide.
  template <typename Body>
  __device__ static void forParts(int dims, const Body& body) {
#pragma unroll
    for (int i = 0; i < kPerLane; i += kWide) {
      const int d = (i / kWide * kWarp + static_cast<int>(threadIdx.x % kWarp)) * kWide;
      if (d < dims) body(i, d);
    }
  }

  __device__ void load(const float* from, int dims) {
    forParts(dims, [&](int i, int d) {
      const auto part = *reinterpret_cast<const AlignedVector<float, kWide>*>(from + d);
#pragma unroll
      for (int e = 0; e < kWide; ++e) values[i + e] = part.elements[e];
    });
  }

  __device__ void store(float* to, int dims) const {
    forParts(dims, [&](int i, int d) {
      AlignedVector<float, kWide> part;
#pragma unroll
      for (int e = 0; e < kWide; ++e) part.elements[e] = values[i + e];
      *reinterpret_cast<AlignedVector<float, kWide>*>(to + d) = part;
    });
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

  /// `angles`: cosines, then sines. `scratch` [D]: shared memory of this warp, to exchange dims
  /// between lanes.
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

  /// The largest magnitude; NaN if a dim is NaN or infinite.
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

/// Writes a key or a value, rounded to the format, with zero padding. With per-token scales it
/// writes `tokenScale`; otherwise it uses the scale `calibrated`.
template <typename T, int kWide>
__device__ void writeVector(uint8_t* row, const HeadVector<kWide>& vector, const KvLayer& cache,
                            Bf16* tokenScale, float calibrated) {
  float scale = 1.0f;
  if constexpr (kScaled<T>) {
    scale = calibrated;
    if (cache.tokenScales) {
      // The scale is rounded before the division, so that elements are multiples of the stored
      // scale.
      const float largest = __fdiv_rn(vector.largest(cache.headDim), kLargest<T>);
      const Bf16 kept = narrowBf16(largest);
      if (threadIdx.x % kWarp == 0) *tokenScale = kept;
      scale = widen(kept);
    }
    if (scale == 0.0f) scale = 1.0f;
  }
  const int padded = cache.rowBytes / static_cast<int>(sizeof(T));
  HeadVector<kWide>::forParts(padded, [&](int i, int d) {
    AlignedVector<T, kWide> part;
#pragma unroll
    for (int e = 0; e < kWide; ++e) {
      const float value = d + e < cache.headDim ? vector.values[i + e] : 0.0f;
      narrow(&part.elements[e], kScaled<T> ? __fdiv_rn(value, scale) : value);
    }
    *reinterpret_cast<AlignedVector<T, kWide>*>(reinterpret_cast<T*>(row) + d) = part;
  });
}

/// A warp's work: one head of one token. Heads are numbered queries first, then keys, then values.
template <int kWide>
__device__ void writeHead(const RopeKvWriteParams& p, int64_t token, int head, float* scratch) {
  const KvLayer& cache = p.cache;
  const int dims = cache.headDim;
  const int position = p.positions[token];
  const int slot = p.slots[token];
  const float* const from = p.qkv + (token * (p.heads + 2 * cache.kvHeads) + head) * dims;
  HeadVector<kWide> vector;
  const auto turn = [&](const float* norm, int place) {
    vector.load(from, dims);
    if (norm != nullptr) vector.normalize(norm, dims, p.epsilon);
    if (p.rope == nullptr) return;
    vector.rotate(p.rope + static_cast<int64_t>(place) * p.rotary, p.rotary, dims, scratch);
  };

  // 1. Queries and sink queries.
  if (head < p.heads) {
    const int64_t at = (token * p.heads + head) * dims;
    turn(p.queryNorm, position);
    vector.store(p.query + at, dims);
    if (p.sinkQuery == nullptr) return;
    turn(p.queryNorm, min(position, p.sinkPositionMax));
    vector.store(p.sinkQuery + at, dims);
    return;
  }

  // 2. The key or value of a token that has a slot.
  if (slot < 0) return;
  const bool isValue = head >= p.heads + cache.kvHeads;
  const int kvHead = (head - p.heads) % cache.kvHeads;
  const int block = slot / cache.blockTokens;
  const int offset = slot % cache.blockTokens;
  uint8_t* row = cache.key(block, offset, kvHead);
  Bf16* scale = cache.scales(block, offset, kvHead);
  if (isValue) {
    row += cache.toValue();
    scale += cache.blockTokens;
    vector.load(from, dims);
  } else {
    turn(p.keyNorm, position);
  }
  withElement(cache.element, [&](auto element) {
    writeVector<decltype(element)>(row, vector, cache, scale,
                                   isValue ? cache.valueScale : cache.keyScale);
  });
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kWarps * kWarp)
perigee_rope_kv_write(const __grid_constant__ RopeKvWriteParams p) {
  joinStream();
  __shared__ __align__(16) float scratch[kWarps][kHeadDimMax];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp;
  if (head >= p.heads + 2 * p.cache.kvHeads) return;
  if (p.cache.headDim % 4 == 0) {
    writeHead<4>(p, blockIdx.x, head, scratch[warp]);
  } else {
    writeHead<1>(p, blockIdx.x, head, scratch[warp]);
  }
}

}  // namespace perigee
