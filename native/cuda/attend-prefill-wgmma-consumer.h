// Consumer warpgroups of prefill attention on Hopper: products and softmax
// (attend-prefill-wgmma.cu).
#pragma once

#include "attend-prefill-wgmma-job.h"
#include "warpgroup-products.h"

namespace perigee {

/// One consumer warpgroup: 64 rows of the block's tile.
template <int kHeadDim, typename T>
struct Consumer {
  using Memory = PrefillMemory<kHeadDim>;
  using Products = WarpgroupProducts<T>;
  using Tile = PanelTile<kHeadDim>;

  const AttendPrefillWgmmaParams& p;
  Memory& memory;
  int warpgroup;
  int thread;  // index in the warpgroup
  PipelineState<kQueries> queries;
  PipelineState<kKeyStages> keys;
  PipelineState<kValueStages> values;

  __device__ Consumer(const AttendPrefillWgmmaParams& params, Memory& shared, int ownWarpgroup,
                      int ownThread)
      : p(params), memory(shared), warpgroup(ownWarpgroup), thread(ownThread) {}

  __device__ void run() {
    JobReader<kHeadDim> jobs{memory, {}};
    for (PrefillJob job = jobs.next(); job.rows > 0; job = jobs.next()) {
      float sums[kHeadDim / 2] = {};
      RunningSoftmax softmax(p.input.scale, p.input.softcap);
      memory.queryRings[warpgroup].waitFull(queries);
      const int tiles = job.tiles();
      if (tiles > 0) {
        attend(sums, softmax, job, tiles);
      } else {
        release(memory.queryRings[warpgroup].free[queries.slot]);
      }
      queries.advance();
      softmax.finish();
      store(sums, softmax, job);
    }
  }

 private:
  /// A thread's first row in the tile; its second row is 8 further.
  __device__ int row() const {
    return kHalfRows * warpgroup + thread / 32 * 16 + thread % 32 / 4;
  }

  /// The positions that this thread's two rows see.
  __device__ RowPair rowPair(const PrefillJob& job) const {
    const int own[2] = {job.ownPosition(row()), job.ownPosition(row() + 8)};
    const int warpFirst = kHalfRows * warpgroup + thread / 32 * 16;
    return {{beginOf(p.input.rows, own[0]), beginOf(p.input.rows, own[1])},
            {own[0] + 1, own[1] + 1},
            beginOf(p.input.rows, job.ownPosition(warpFirst + 15)),
            job.ownPosition(warpFirst) + 1};
  }

  /// 1. Main loop over all tiles, from the last positions to the first.
  __device__ void attend(float (&sums)[kHeadDim / 2], RunningSoftmax& softmax,
                         const PrefillJob& job, int tiles) {
    float scores[64];
    uint32_t weights[kKeys / 16][4];
    const RowPair pair = rowPair(job);
    const int last = job.lastTile();
    Barrier& queryFree = memory.queryRings[warpgroup].free[queries.slot];

    // Ping-pong: the warpgroups take turns to issue products, so that one computes exponentials
    // while the other multiplies. This starts with the second tile.
    if (warpgroup == 1 && tiles > 1) giveTurn(0);
    memory.keyRing.waitFull(keys);
    startScores(scores);
    waitProducts<0>();
    pinRegisters(scores);
    releaseKeys();
    if (tiles == 1) release(queryFree);
    softmax.add(scores, pair, last * kKeys);
    packWeights<T>(weights, scores);
    if (tiles > 1) {
      memory.valueRing.waitFull(values);
      clearUnseen(job, last);
    }

    for (int index = 1; index < tiles; ++index) {
      memory.keyRing.waitFull(keys);
      waitTurn();
      startScores(scores);
      memory.valueRing.waitFull(values);
      startSums(sums, weights);
      // No warpgroup waits for a turn after the very last tile.
      if (warpgroup == 0 || index + 1 < tiles) giveTurn(1 - warpgroup);

      waitProducts<1>();
      pinRegisters(scores);
      releaseKeys();
      if (index + 1 == tiles) release(queryFree);
      const Shrink shrink = softmax.add(scores, pair, (last - index) * kKeys);

      // The exponentials are computed while the product with the values is still running.
      computeFirst(softmax.sum[0]);
      computeFirst(softmax.sum[1]);
      waitProducts<0>();
      pinRegisters(sums);
      releaseValues();
      shrink.apply(sums);
      packWeights<T>(weights, scores);
    }

    memory.valueRing.waitFull(values);
    clearUnseen(job, last - tiles + 1);
    startSums(sums, weights);
    waitProducts<0>();
    pinRegisters(sums);
    releaseValues();
  }

  /// Starts scores = query . keys.
  __device__ void startScores(float (&scores)[64]) const {
    const uint32_t query =
        sharedAddress(memory.query[queries.slot]) + kHalfRows * Tile::kRowBytes * warpgroup;
    const uint32_t tile = sharedAddress(memory.keys[keys.slot]);
    pinRegisters(scores);
    openProducts();
#pragma unroll
    for (int column = 0; column < kHeadDim; column += 16) {
      Products::ofShared(scores, Tile::alongRows(query, column), Tile::alongRows(tile, column),
                         column > 0);
    }
    closeProducts();
  }

  /// Starts sums += weights . values.
  __device__ void startSums(float (&sums)[kHeadDim / 2],
                            uint32_t (&weights)[kKeys / 16][4]) const {
    const uint32_t tile = sharedAddress(memory.values[values.slot]);
    pinRegisters(sums);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) pinRegisters(weights[step]);
    openProducts();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      Products::ofRegisters(sums, weights[step], Tile::acrossRows(tile, step * 16));
    }
    closeProducts();
  }

  /// Zeroes the values of tile `tile`, which has arrived, that no row sees but that lie in the
  /// cache blocks of the first and the last visible position. They may never have been written and
  /// hold NaN, and NaN times a weight of 0 is NaN. Each warpgroup zeroes them for itself.
  __device__ void clearUnseen(const PrefillJob& job, int tile) const {
    const int start = tile * kKeys;
    const int blockTokens = p.input.cache.blockTokens;
    const int blocksEnd = static_cast<int>(padTo(job.end, blockTokens));
    const bool clearsHead = job.begin > start && job.begin % blockTokens != 0;
    const bool clearsTail = job.end < min(start + kKeys, blocksEnd);
    if (!clearsHead && !clearsTail) return;
    if (clearsHead) clearRows(job.begin / blockTokens * blockTokens - start, job.begin - start);
    if (clearsTail) clearRows(job.end - start, min(kKeys, blocksEnd - start));
    publishShared();
    namedBarrierSync<kWarpgroup>(kOwnBarrier + warpgroup);
  }

  __device__ void clearRows(int from, int to) const {
    constexpr int kRowChunks = kHeadDim / 8;
    for (int i = thread; i < (to - from) * kRowChunks; i += kWarpgroup) {
      const int at = Tile::offset(from + i / kRowChunks, i % kRowChunks);
      *reinterpret_cast<uint4*>(memory.values[values.slot] + at) = {0, 0, 0, 0};
    }
  }

  /// Each warp arrives once; the stage can be refilled when all consumer warps have arrived.
  __device__ void release(Barrier& free) const {
    if (thread % kWarp == 0) free.arrive();
  }
  __device__ void releaseKeys() {
    release(memory.keyRing.free[keys.slot]);
    keys.advance();
  }
  __device__ void releaseValues() {
    release(memory.valueRing.free[values.slot]);
    values.advance();
  }

  __device__ void waitTurn() const {
    namedBarrierSync<kConsumers * kWarpgroup>(kTurnBarrier + warpgroup);
  }
  __device__ void giveTurn(int to) const {
    namedBarrierArrive<kConsumers * kWarpgroup>(kTurnBarrier + to);
  }

  /// 2. Divides the sums of values by the sum of weights and stores them; zeros for a row that sees
  /// no position. Four lanes hold a row, and each stores 16 of every 64 bytes.
  __device__ void store(const float (&sums)[kHeadDim / 2], const RunningSoftmax& softmax,
                        const PrefillJob& job) const {
    constexpr int kStoredColumns = 32;
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const int r = row() + 8 * which;
      const float factor = softmax.sum[which] == 0.0f ? 0.0f : 1.0f / softmax.sum[which];
      uint8_t* const to = p.out.row(job.firstToken + job.token(r)) +
                          (job.head(r) * kHeadDim + thread % 4 * 8) * sizeof(Bf16);
#pragma unroll
      for (int column = 0; column < kHeadDim; column += kStoredColumns) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float* const two = sums + column / 2 + 4 * i + 2 * which;
          words[i] = WarpgroupProducts<Bf16>::pair(two[0] * factor, two[1] * factor);
        }
        transposeQuad(words);
        if (r >= job.rows) continue;
        *reinterpret_cast<uint4*>(to + column * sizeof(Bf16)) = {words[0], words[1], words[2],
                                                                 words[3]};
      }
    }
  }
};

}  // namespace perigee
