// Rope and KV cache write (rope-kv-write.cu) for heads that are rotated completely or not at all,
// without sink queries.
//
// Formula  as in rope-kv-write.cu; pair (i, i + D / 2) is rotated
// Shapes   as in rope-kv-write.cu; D a multiple of 16 up to 256
// Work     A lane holds four adjacent dims of each half of a head, so whole pairs: only sums are
//          exchanged between lanes. A head uses one lane per such quad, rounded up to a power of
//          two. A block is kThreads / lanes heads of one token; where tokens fill the GPU, three
//          times as many, so that a thread's heads share the angles and all their loads are in
//          flight at once. Both variants give the same bits
// Bound    memory: 4 (H + 2K) D bytes read and about as many written per token
// Checked  bench/gpu/smoke.mjs, ropeKvWrite; bench/gpu/rows.mjs
#include "rope-kv-write.h"

namespace perigee {

namespace {

constexpr int kThreads = 256;
constexpr int kQuad = 4;
using Quad = AlignedVector<float, kQuad>;

/// Lanes per head: a power of two, with a quad of each half for all but the last lanes.
__device__ __forceinline__ int headLanes(int dims) { return 1 << (32 - __clz(dims / 8 - 1)); }

/// Reductions over the lanes of a head; all lanes of the warp call them.
__device__ __forceinline__ float headSum(float value, int lanes) {
  for (int lane = lanes / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  }
  return value;
}
__device__ __forceinline__ float headMax(float value, int lanes) {
  for (int lane = lanes / 2; lane > 0; lane /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  }
  return value;
}

/// A lane's part of a row of D floats: dims [dim, dim + 4) and the four dims half a row later;
/// zeros in a lane without dims.
struct HeadPart {
  Quad low = {};
  Quad high = {};

  __device__ static Quad ofMemory(const float* from) {
    const float4 quad = __ldg(reinterpret_cast<const float4*>(from));
    return {{quad.x, quad.y, quad.z, quad.w}};
  }
  /// Loads data that no other block of the SM reads; bypasses L1.
  __device__ static Quad ofLargeCache(const float* from) {
    const float4 quad = __ldcg(reinterpret_cast<const float4*>(from));
    return {{quad.x, quad.y, quad.z, quad.w}};
  }

  template <typename Body>
  __device__ void forEach(const Body& body) {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      body(low.elements[i]);
      body(high.elements[i]);
    }
  }

  __device__ void normalize(const HeadPart& weight, float squares, int dims, float epsilon) {
    const float scale = 1.0f / sqrtf(squares / static_cast<float>(dims) + epsilon);
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      low.elements[i] = low.elements[i] * scale * weight.low.elements[i];
      high.elements[i] = high.elements[i] * scale * weight.high.elements[i];
    }
  }

  /// `angles`: cosines in `low`, sines in `high`.
  __device__ void rotate(const HeadPart& angles) {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      const float cosine = angles.low.elements[i];
      const float sine = angles.high.elements[i];
      const float first = low.elements[i];
      const float second = high.elements[i];
      low.elements[i] = first * cosine - second * sine;
      high.elements[i] = second * cosine + first * sine;
    }
  }

  template <typename T>
  __device__ void store(T* low_, T* high_, float scale) const {
    AlignedVector<T, kQuad> lows, highs;
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      narrow(&lows.elements[i], kScaled<T> ? __fdiv_rn(low.elements[i], scale) : low.elements[i]);
      narrow(&highs.elements[i],
             kScaled<T> ? __fdiv_rn(high.elements[i], scale) : high.elements[i]);
    }
    *reinterpret_cast<AlignedVector<T, kQuad>*>(low_) = lows;
    *reinterpret_cast<AlignedVector<T, kQuad>*>(high_) = highs;
  }
};

/// A thread's position among the heads of its token.
struct Place {
  int lanes;  // lanes per head
  int dim;    // first dim of the lane
  bool has;   // the lane has dims
  int head;   // first head of the thread
  int step;   // stride to the thread's next head

  __device__ Place(int dims, int heads) {
    lanes = headLanes(dims);
    const int lane = static_cast<int>(threadIdx.x) % lanes;
    dim = lane * kQuad;
    has = dim < dims / 2;
    step = kThreads / lanes;
    head = static_cast<int>(blockIdx.y) * heads * step + static_cast<int>(threadIdx.x) / lanes;
  }
};

/// Data of a token that all its heads share.
struct Token {
  int64_t index;
  int position;
  int slot;
};

/// Writes a key or a value, rounded to the format. All lanes of the warp call it; `keeps` is set in
/// those that write.
template <typename T>
__device__ void writePart(const HeadPart& part, const KvLayer& cache, const Token& token,
                          const Place& place, int kvRow, bool keeps) {
  const bool isValue = kvRow >= cache.kvHeads;
  float scale = isValue ? cache.valueScale : cache.keyScale;
  Bf16 kept = {};
  if constexpr (kScaled<T>) {
    if (cache.tokenScales) {
      // NaN where a dim is NaN or infinite. The scale is rounded before the division, so that
      // elements are multiples of the stored scale.
      float most = 0.0f;
      float poison = 0.0f;
      HeadPart(part).forEach([&](float value) {
        most = fmaxf(most, fabsf(value));
        poison += value * 0.0f;
      });
      most = headMax(most, place.lanes) + headSum(poison, place.lanes);
      kept = narrowBf16(__fdiv_rn(most, kLargest<T>));
      scale = widen(kept);
    }
    if (scale == 0.0f) scale = 1.0f;
  }
  if (!keeps) return;
  const int kvHead = isValue ? kvRow - cache.kvHeads : kvRow;
  const int block = token.slot / cache.blockTokens;
  const int offset = token.slot % cache.blockTokens;
  uint8_t* const row = cache.key(block, offset, kvHead) + (isValue ? cache.toValue() : 0);
  T* const to = reinterpret_cast<T*>(row) + place.dim;
  part.store(to, to + cache.headDim / 2, scale);
  if (kScaled<T> && cache.tokenScales && place.dim == 0) {
    cache.scales(block, offset, kvHead)[isValue ? cache.blockTokens : 0] = kept;
  }
}

/// Norm, rotation and store of one head. All lanes of the warp call it.
__device__ __forceinline__ void writeHead(const RopeKvWriteParams& p, HeadPart& part, int head,
                                          const Token& token, const Place& place,
                                          const HeadPart& angles) {
  const KvLayer& cache = p.cache;
  const int dims = cache.headDim;
  const bool isQuery = head < p.heads;
  const int kvRow = head - p.heads;

  // 1. RMS norm. Sums run over lanes, so lanes of heads without a norm take part.
  if (p.queryNorm != nullptr || p.keyNorm != nullptr) {
    float squares = 0.0f;
    part.forEach([&](float value) { squares += value * value; });
    squares = headSum(squares, place.lanes);
    const float* const norm = isQuery ? p.queryNorm : kvRow < cache.kvHeads ? p.keyNorm : nullptr;
    if (norm != nullptr && place.has) {
      const HeadPart weight = {HeadPart::ofMemory(norm + place.dim),
                               HeadPart::ofMemory(norm + place.dim + dims / 2)};
      part.normalize(weight, squares, dims, p.epsilon);
    }
  }

  // 2. Rotation; values pass unchanged.
  if (p.rope != nullptr && kvRow < cache.kvHeads) part.rotate(angles);

  // 3. Stores queries, and keys and values of tokens that have a slot.
  if (isQuery && place.has) {
    float* const to = p.query + (token.index * p.heads + head) * dims + place.dim;
    part.store(to, to + dims / 2, 1.0f);
  }
  const bool keeps = !isQuery && kvRow < 2 * cache.kvHeads && place.has && token.slot >= 0;
  withElement(cache.element, [&](auto element) {
    writePart<decltype(element)>(part, cache, token, place, kvRow, keeps);
  });
}

/// A thread's heads of one token.
template <int kHeads>
__device__ __forceinline__ void writeHeads(const RopeKvWriteParams& p) {
  letNextStart();
  const int dims = p.cache.headDim;
  const int heads = p.heads + 2 * p.cache.kvHeads;
  const Place place(dims, kHeads);

  // 1. Inputs written by the host, loaded before the wait.
  const Token token = {blockIdx.x, p.positions[blockIdx.x], p.slots[blockIdx.x]};
  HeadPart angles;
  if (p.rope != nullptr && place.has) {
    const float* const row = p.rope + static_cast<int64_t>(token.position) * p.rotary + place.dim;
    angles = {HeadPart::ofMemory(row), HeadPart::ofMemory(row + dims / 2)};
  }
  waitForPrevious();

  // 2. All heads are loaded before the first one is used.
  HeadPart parts[kHeads];
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    const int head = place.head + i * place.step;
    if (head >= heads || !place.has) continue;
    const float* const from = p.qkv + (token.index * heads + head) * dims + place.dim;
    parts[i] = {HeadPart::ofLargeCache(from), HeadPart::ofLargeCache(from + dims / 2)};
  }

  // 3. Processes and stores each head.
#pragma unroll
  for (int i = 0; i < kHeads; ++i) {
    writeHead(p, parts[i], place.head + i * place.step, token, place, angles);
  }
}

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kThreads)
    perigee_rope_kv_write_few(const __grid_constant__ RopeKvWriteParams p) {
  writeHeads<1>(p);
}

PERIGEE_KERNEL __launch_bounds__(kThreads)
    perigee_rope_kv_write_many(const __grid_constant__ RopeKvWriteParams p) {
  writeHeads<3>(p);
}

}  // namespace perigee
