// Shared memory of a prefill attention block, and the copies of keys and values into it.
//
//   queries [kRows, kDims]
//   stages of (keys, values), [kPositions, kDims] each, as 16-bit floats
//   8-bit caches only: keys, values [kPositions, kDims] as stored
//   sites: the addresses of the positions of four KV tiles [4, kPositions]
//   8-bit caches only: scales of four KV tiles [4, 2, kPositions]
//
// Rows of 16-bit elements are swizzled in chunks of 16 bytes, so that the chunks of eight rows in
// one column lie in different banks. The copies of a KV tile are in flight while the previous one
// is multiplied. 8-bit elements arrive as stored and are widened when their KV tile is due.
#pragma once

#include "attend-prefill-mask.h"
#include "dynamic-shared.h"
#include "tensor-core.h"

namespace perigee {

template <typename T>
struct ProductOf {
  using Half = Bf16;  // holds i8 and fp8 exactly, without their scales
};
template <>
struct ProductOf<F16> {
  using Half = F16;
};

/// Sizes for element type `T` and head dims of up to kDims; `prefillShapeOf` of
/// src/devices/cuda/ops/attend-prefill.ts repeats them.
template <typename T, int kHeadDims>
struct PrefillShape {
  using Element = T;
  using Half = typename ProductOf<T>::Half;
  static constexpr int kDims = kHeadDims;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  /// 32 rows per warp: each key and value fragment is used twice, or shared memory would be the
  /// bottleneck. The sums take 4 * kDims bytes of registers per lane, which is too much for 256
  /// dims.
  static constexpr int kRowTiles = kDims <= 128 ? 2 : 1;
  static constexpr int kRowsOfWarp = 16 * kRowTiles;
  static constexpr int kRows = kWarps * kRowsOfWarp;
  static constexpr int kPositions = kDims <= 128 ? 64 : 32;
  static constexpr int kRowBytes = kDims * 2;
  static constexpr int kChunks = kRowBytes / 16;
  static constexpr int kTileBytes = kPositions * kRowBytes;
  static constexpr int kStages = kScaled<T> ? 1 : 2;
  static constexpr int kStoredRowBytes = kDims * static_cast<int>(sizeof(T));
  static constexpr int kStoredBytes = kPositions * kStoredRowBytes;
  static constexpr int kSlots = 4;

  static constexpr int kStagesAt = kRows * kRowBytes;
  static constexpr int kStoredAt = kStagesAt + kStages * 2 * kTileBytes;
  static constexpr int kSitesAt = kStoredAt + (kScaled<T> ? 2 * kStoredBytes : 0);
  static constexpr int kScalesAt = kSitesAt + kSlots * kPositions * 8;
  static constexpr int kSharedBytes = kScalesAt + (kScaled<T> ? kSlots * 2 * kPositions * 4 : 0);

  static_assert(kChunks % 4 == 0, "rows that the swizzle knows");

  /// Offset of a 16-byte chunk in a tile, swizzled. Rows of 8n chunks all begin in the same bank,
  /// so the chunk index is XORed with the row. Rows of 8n + 4 chunks begin in two banks
  /// alternately, so it is XORed with half the row index.
  static __device__ int chunkAt(int row, int chunk) {
    const int moved = kChunks % 8 == 0 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3);
    return row * kRowBytes + moved * 16;
  }

  static __device__ int keysAt(int kvTile) { return kStagesAt + kvTile % kStages * 2 * kTileBytes; }
  static __device__ int valuesAt(int kvTile) { return keysAt(kvTile) + kTileBytes; }

  /// Address of each position's key; 0 if no row sees the position.
  static __device__ uint64_t* sites(int kvTile) {
    return reinterpret_cast<uint64_t*>(dynamicShared() + kSitesAt) + kvTile % kSlots * kPositions;
  }
  /// Scales of the keys, then of the values.
  static __device__ float* scales(int kvTile) {
    return reinterpret_cast<float*>(dynamicShared() + kScalesAt) + kvTile % kSlots * 2 * kPositions;
  }
};

/// Loads a block's KV tiles into shared memory. The first kPositions threads look up the address of
/// one position each, two KV tiles ahead of its copy.
template <typename Shape>
class PrefillSource {
 public:
  using T = typename Shape::Element;
  using KvTiles = PrefillKvTiles<Shape::kPositions>;

  __device__ PrefillSource(const AttentionInput& input, const PrefillTile& tile,
                           const KvTiles& kvTiles)
      : input(input), cache(input.cache), tile(tile), kvTiles(kvTiles) {}

  /// Looks up the sites of the first two KV tiles and starts the copy of the first. All threads
  /// call it.
  __device__ void open() {
    // The three lookups are in flight together.
    const int first = blockOf(0);
    const int second = blockOf(1);
    const int third = blockOf(2);
    block = first;
    place(0);
    placeScales(0, loadScales(0));
    block = second;
    place(1);
    placeScales(1, loadScales(1));
    block = third;
    __syncthreads();
    beginCopy(0);
  }

  /// Waits for the KV tile's keys and values and starts the copy of the next KV tile. All threads
  /// call it.
  __device__ void take(int kvTile) {
    waitCopies<0>();
    __syncthreads();
    if constexpr (kScaled<T>) {
      widenStored(kvTile);
      __syncthreads();
    }
    beginCopy(kvTile + 1);
    ownScales = loadScales(kvTile + 2);
    place(kvTile + 2);
    block = blockOf(kvTile + 3);
  }

  /// Ends a KV tile: stores the scales that were loaded meanwhile.
  __device__ void leave(int kvTile) { placeScales(kvTile + 2, ownScales); }

 private:
  const AttentionInput& input;
  const KvLayer& cache;
  const PrefillTile& tile;
  const KvTiles& kvTiles;
  int block;  // of this thread's position, three KV tiles ahead; -1: not read
  float2 ownScales;

  __device__ int position(int kvTile) const {
    return kvTiles.start(kvTile) + static_cast<int>(threadIdx.x);
  }

  __device__ int blockOf(int kvTile) const {
    if (threadIdx.x >= Shape::kPositions) return -1;
    const int at = position(kvTile);
    if (!kvTiles.reads(kvTile, at) || (at >= kvTiles.treeStart && !isSeenInTree(at))) return -1;
    return input.blockTables[tile.sequence * input.blocksPerTable + at / cache.blockTokens];
  }

  /// Whether any row of the tile sees this position of a token tree. Positions that no row sees are
  /// not read: they may hold NaN, and NaN times a weight of 0 is NaN.
  __device__ bool isSeenInTree(int at) const {
    const int words = input.rows.treeWords;
    const int bit = at - kvTiles.treeStart;
    if (bit >= 32 * words) return true;
    // Tokens do not see later positions than their own.
    const int own = at - input.rows.firstNewOf(tile.sequence);
    for (int token = max(own, tile.token(0)); token <= tile.token(tile.count - 1); ++token) {
      const int64_t row = tile.firstToken + token;
      if (((input.rows.treeMask[row * words + bit / 32] >> (bit % 32)) & 1u) == 0) return true;
    }
    return false;
  }

  __device__ void place(int kvTile) const {
    if (threadIdx.x >= Shape::kPositions) return;
    const int offset = position(kvTile) % cache.blockTokens;
    Shape::sites(kvTile)[threadIdx.x] =
        block < 0 ? 0 : reinterpret_cast<uint64_t>(cache.key(block, offset, tile.kvHead));
  }

  /// Scales of key and value; zeros where no row sees the position, because its scales may be NaN.
  __device__ float2 loadScales(int kvTile) const {
    if (!kScaled<T> || block < 0) return make_float2(0.0f, 0.0f);
    if (!cache.tokenScales) return make_float2(cache.keyScale, cache.valueScale);
    const int offset = position(kvTile) % cache.blockTokens;
    const Bf16* const scales = cache.scales(block, offset, tile.kvHead);
    return make_float2(widen(scales[0]), widen(scales[cache.blockTokens]));
  }

  __device__ void placeScales(int kvTile, float2 scales) const {
    if (!kScaled<T> || threadIdx.x >= Shape::kPositions) return;
    Shape::scales(kvTile)[threadIdx.x] = scales.x;
    Shape::scales(kvTile)[Shape::kPositions + threadIdx.x] = scales.y;
  }

  /// Masked positions and dims beyond the head dim become zeros.
  __device__ void beginCopy(int kvTile) const {
    constexpr int kChunks = Shape::kStoredRowBytes / 16;
    constexpr int kCopies = Shape::kPositions * kChunks / Shape::kThreads;
    static_assert(kCopies * Shape::kThreads == Shape::kPositions * kChunks, "all threads alike");
    const SharedAddress shared = sharedAddress(dynamicShared());
    const uint64_t* const sites = Shape::sites(kvTile);
    if (kvTile < kvTiles.count) {
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        const int index = i * Shape::kThreads + static_cast<int>(threadIdx.x);
        const int row = index / kChunks;
        const int chunk = index % kChunks;
        const uint64_t site = sites[row];
        const bool real = site != 0 && chunk * 16 < cache.rowBytes;
        const uint8_t* const from =
            real ? reinterpret_cast<const uint8_t*>(site) + chunk * 16 : cache.data;
        const int to = kScaled<T> ? Shape::kStoredAt + row * Shape::kStoredRowBytes + chunk * 16
                                  : Shape::keysAt(kvTile) + Shape::chunkAt(row, chunk);
        const int toValue = kScaled<T> ? Shape::kStoredBytes : Shape::kTileBytes;
        copyAsync(shared + to, from, real ? 16 : 0);
        copyAsync(shared + to + toValue, from + (real ? cache.toValue() : 0), real ? 16 : 0);
      }
    }
    commitCopies();
  }

  /// Widens the stored 8-bit elements to 16 bits: the keys, then the values, which follow them in
  /// both buffers.
  __device__ void widenStored(int kvTile) const {
    constexpr int kChunks = Shape::kStoredRowBytes / 16;
    unsigned char* const shared = dynamicShared();
    const bool isFp8 = cache.element == Element::fp8;
    for (int i = threadIdx.x; i < 2 * Shape::kPositions * kChunks; i += Shape::kThreads) {
      const int part = i / (Shape::kPositions * kChunks);
      const int row = i / kChunks % Shape::kPositions;
      const int chunk = i % kChunks;
      const uint4 stored = *reinterpret_cast<const uint4*>(shared + Shape::kStoredAt + i * 16);
      unsigned char* const halves = shared + Shape::keysAt(kvTile) + part * Shape::kTileBytes;
      const auto put = [&](int which, uint32_t low, uint32_t high) {
        *reinterpret_cast<uint4*>(halves + Shape::chunkAt(row, 2 * chunk + which)) =
            isFp8 ? widenChunk<Fp8>(low, high) : widenChunk<Q8>(low, high);
      };
      put(0, stored.x, stored.y);
      put(1, stored.z, stored.w);
    }
  }

  /// Eight 8-bit elements as bf16.
  template <typename Stored>
  static __device__ uint4 widenChunk(uint32_t low, uint32_t high) {
    const auto pair = [](uint32_t bytes, int shift) {
      using Bits = decltype(Stored::bits);
      const Stored lower = {static_cast<Bits>(bytes >> shift)};
      const Stored upper = {static_cast<Bits>(bytes >> (shift + 8))};
      return packPair(widen(lower), widen(upper), Bf16{});
    };
    return make_uint4(pair(low, 0), pair(low, 16), pair(high, 0), pair(high, 16));
  }
};

}  // namespace perigee
