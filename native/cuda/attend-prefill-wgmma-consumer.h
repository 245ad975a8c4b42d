// The warpgroups of prefill attention on Hopper that multiply (attend-prefill-wgmma.cu).
#pragma once

#include "attend-prefill-wgmma-job.h"
#include "warpgroup-products.h"

namespace perigee {

/// One of them: 64 rows of the block's tile.
template <int kHeadDim, typename T>
struct Consumer {
  using Memory = PrefillMemory<kHeadDim>;
  using Products = WarpgroupProducts<T>;

  const AttendPrefillWgmmaParams& p;
  const PrefillJob& job;
  Memory& memory;
  int warpgroup;
  int thread;  // of the warpgroup

  /// A thread's first row of the tile; the second one is 8 further on.
  __device__ int row() const { return 64 * warpgroup + thread / 32 * 16 + thread % 32 / 4; }

  /// 1. The warpgroup's own queries, as 16 bits; zeros behind the last row.
  __device__ void loadQuery() const {
    constexpr int kChunks = kHeadDim / 8;
    for (int i = thread; i < 64 * kChunks; i += kWarpgroup) {
      const int r = 64 * warpgroup + i / kChunks;
      const int chunk = i % kChunks;
      uint4 packed = {0, 0, 0, 0};
      if (r < job.rows) {
        const int64_t token = job.firstToken + job.token(r);
        const int64_t at = (token * p.input.heads + job.head(r)) * kHeadDim + chunk * 8;
        const float* const from = p.input.query + at;
        const float4 low = reinterpret_cast<const float4*>(from)[0];
        const float4 high = reinterpret_cast<const float4*>(from)[1];
        packed = {Products::pair(low.x, low.y), Products::pair(low.z, low.w),
                  Products::pair(high.x, high.y), Products::pair(high.z, high.w)};
      }
      uint8_t* const panel = memory.query + chunk / kPanelChunks * Memory::kPanelBytes;
      *reinterpret_cast<uint4*>(panel + chunkOffset(r, chunk % kPanelChunks)) = packed;
    }
    publishShared();
    meet<kWarpgroup>(kOwnBarrier + warpgroup);
  }

  /// Values of the cache blocks that hold the first and the last position seen, but that no row
  /// sees, may never have been written: zeros, because NaN times a weight of 0 is not 0. Of the
  /// tile `index` from the end, which has arrived. Each warpgroup does it for itself.
  __device__ void clearUnseen(int index) const {
    const int start = (job.lastTile() - index) * kKeys;
    const int blockTokens = p.input.cache.blockTokens;
    const int blocksEnd = static_cast<int>(padTo(job.end, blockTokens));
    const bool clearsHead = job.begin > start && job.begin % blockTokens != 0;
    const bool clearsTail = job.end < min(start + kKeys, blocksEnd);
    if (!clearsHead && !clearsTail) return;
    if (clearsHead) {
      clearRows(index, job.begin / blockTokens * blockTokens - start, job.begin - start);
    }
    if (clearsTail) clearRows(index, job.end - start, min(kKeys, blocksEnd - start));
    publishShared();
    meet<kWarpgroup>(kOwnBarrier + warpgroup);
  }

  __device__ void clearRows(int index, int from, int to) const {
    constexpr int kRowChunks = Memory::kPanels * kPanelChunks;
    for (int i = thread; i < (to - from) * kRowChunks; i += kWarpgroup) {
      const int chunk = i % kRowChunks;
      uint8_t* const panel =
          memory.values[index % kStages] + chunk / kPanelChunks * Memory::kPanelBytes;
      uint8_t* const at = panel + chunkOffset(from + i / kRowChunks, chunk % kPanelChunks);
      *reinterpret_cast<uint4*>(at) = {0, 0, 0, 0};
    }
  }

  /// Starts scores = query . keys.
  __device__ void startScores(float (&scores)[64], int stage) const {
    const uint32_t query = sharedAddress(memory.query) + 64 * warpgroup * kPanelRowBytes;
    const uint32_t keys = sharedAddress(memory.keys[stage]);
    pinRegisters(scores);
    openProducts();
#pragma unroll
    for (int column = 0; column < kHeadDim; column += 16) {
      Products::ofShared(scores, alongRows(query, Memory::kPanelBytes, column),
                         alongRows(keys, Memory::kPanelBytes, column), column > 0);
    }
    closeProducts();
  }

  /// Starts sums += weights . values.
  __device__ void startSums(float (&sums)[kHeadDim / 2], uint32_t (&weights)[kKeys / 16][4],
                            int stage) const {
    const uint32_t values = sharedAddress(memory.values[stage]);
    pinRegisters(sums);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) pinRegisters(weights[step]);
    openProducts();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      Products::ofRegisters(sums, weights[step],
                            acrossRows(values, Memory::kPanelBytes, step * 16));
    }
    closeProducts();
  }

  /// A stage may be filled again once every warp has let it go.
  __device__ void release(Barrier& free) const {
    if (thread % 32 == 0) free.arrive();
  }

  __device__ void waitTurn() const { meet<kConsumers * kWarpgroup>(kTurnBarrier + warpgroup); }
  __device__ void giveTurn(int to) const { arriveAt<kConsumers * kWarpgroup>(kTurnBarrier + to); }

  /// Which positions this thread's two rows see.
  __device__ RowPair rowPair() const {
    const int own[2] = {job.ownPosition(row()), job.ownPosition(row() + 8)};
    const int warpFirst = 64 * warpgroup + thread / 32 * 16;
    return {{beginOf(p.input.rows, own[0]), beginOf(p.input.rows, own[1])},
            {own[0] + 1, own[1] + 1},
            beginOf(p.input.rows, job.ownPosition(warpFirst + 15)),
            job.ownPosition(warpFirst) + 1};
  }

  __device__ void run() const {
    float sums[kHeadDim / 2] = {};
    const int tiles = job.tiles();
    const RowPair pair = rowPair();
    RunningSoftmax softmax(p.input.scale, p.input.softcap);
    if (tiles > 0) {
      loadQuery();
      attend(sums, softmax, pair, tiles);
    }
    softmax.finish();
    store(sums, softmax);
  }

  /// 2. All tiles, the last positions first.
  __device__ void attend(float (&sums)[kHeadDim / 2], RunningSoftmax& softmax, const RowPair& pair,
                         int tiles) const {
    float scores[64];
    uint32_t weights[kKeys / 16][4];
    const int last = job.lastTile();

    memory.keysFull[0].wait(0);
    startScores(scores, 0);
    waitProducts<0>();
    pinRegisters(scores);
    release(memory.keysFree[0]);
    softmax.add(scores, pair, last * kKeys);
    packWeights<T>(weights, scores);
    if (tiles > 1) {
      memory.valuesFull[0].wait(0);
      clearUnseen(0);
    }

    if (warpgroup == 1) giveTurn(0);
    for (int index = 1; index < tiles; ++index) {
      const int stage = index % kStages;
      const int before = (index - 1) % kStages;
      memory.keysFull[stage].wait(index / kStages % 2);
      waitTurn();
      startScores(scores, stage);
      memory.valuesFull[before].wait((index - 1) / kStages % 2);
      startSums(sums, weights, before);
      // The last turn of all is nobody's to take.
      if (warpgroup == 0 || index + 1 < tiles) giveTurn(1 - warpgroup);

      waitProducts<1>();
      pinRegisters(scores);
      release(memory.keysFree[stage]);
      const Shrink shrink = softmax.add(scores, pair, (last - index) * kKeys);

      waitProducts<0>();
      pinRegisters(sums);
      release(memory.valuesFree[before]);
      shrink.apply(sums);
      packWeights<T>(weights, scores);
    }
    if (warpgroup == 0 && tiles == 1) waitTurn();  // takes what was given above

    memory.valuesFull[(tiles - 1) % kStages].wait((tiles - 1) / kStages % 2);
    clearUnseen(tiles - 1);
    startSums(sums, weights, (tiles - 1) % kStages);
    waitProducts<0>();
    pinRegisters(sums);
  }

  /// 3. Sums over weights. A row that saw nothing is zeros.
  __device__ void store(const float (&sums)[kHeadDim / 2], const RunningSoftmax& softmax) const {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const int r = row() + 8 * which;
      if (r >= job.rows) continue;
      const float factor = softmax.sum[which] == 0.0f ? 0.0f : 1.0f / softmax.sum[which];
      uint8_t* const to = p.out.row(job.firstToken + job.token(r)) +
                          (job.head(r) * kHeadDim + thread % 4 * 2) * sizeof(Bf16);
#pragma unroll
      for (int j = 0; j < kHeadDim / 8; ++j) {
        const float* const two = sums + 4 * j + 2 * which;
        *reinterpret_cast<uint32_t*>(to + j * 8 * sizeof(Bf16)) =
            WarpgroupProducts<Bf16>::pair(two[0] * factor, two[1] * factor);
      }
    }
  }
};

}  // namespace perigee
