// Products of a few rows of x with all rows of a bf16 matrix, at the speed at which memory gives
// the matrix: what a decode step's linears share.
//
// Work     The matrix is cut into units of kTileOutputs rows by kUnitColumns columns, counted tile
//          by tile, and every block takes an equal stretch of them: no multiprocessor is idle at
//          the end, whatever the shape. A tile that lies in several stretches is added up by the
//          block that is done with it last, in the order of its columns: the same bits in any run
// Bound    memory: each weight read once for up to 32 rows. kStages units (96 KiB) are on their
//          way in a block at any time, and begin before the kernel in front has ended
// Order    of a sum depends on the matrix's shape and the grid alone: a row has the same bits
//          whatever rows are beside it
//
// A sum does not care how its columns are numbered, as long as x and the weight agree. So a lane
// copies 16 bytes of each row it holds, 8 neighbours, to a place of its own in shared memory, and
// hands them to two instructions in turn: it waits for no other lane, and nothing is shuffled. All
// warps of a block are at the same columns, so that x comes from the first cache.
#pragma once

#include "dynamic-shared.h"
#include "packed-rows.h"
#include "tensor-core.h"

namespace perigee {

constexpr int kStreamWarps = 8;
constexpr int kStreamThreads = kStreamWarps * kWarp;
constexpr int kStripOutputs = 16;  // of a warp: rows of one instruction
constexpr int kTileOutputs = kStreamWarps * kStripOutputs;
constexpr int kTileRows = 8;       // of x, in one instruction
constexpr int kUnitColumns = 64;   // 128 bytes of each row
constexpr int kLaneColumns = 8;    // 16 bytes
constexpr int kStages = 6;
constexpr int kLaneStride = kWarp * 16;          // from one of a lane's four chunks to the next
constexpr int kStageBytes = 4 * kLaneStride;     // of a warp
constexpr int kRingBytes = kStages * kStageBytes;
/// Of the sums of one row of x, so that the four lanes of a group write to different banks.
constexpr int kSumStride = kTileOutputs + 4;

/// What blocks leave for each other. Written between this kernel's start and end only.
struct StreamRoom {
  float* partials;    // [2 * blocks][rows of x][kTileOutputs]: a block's first and last tile
  int32_t* arrivals;  // [blocks], zeros before and after a kernel
};

/// Which units are whose.
struct StreamShares {
  int units;
  int blocks;

  __device__ int start(int block) const {
    return static_cast<int>(static_cast<int64_t>(units) * block / blocks);
  }

  /// The last block that starts at `unit` or before.
  __device__ int blockOf(int unit) const {
    return static_cast<int>((static_cast<int64_t>(unit + 1) * blocks - 1) / units);
  }
};

/// Copies one lane's share of unit after unit to its places in shared memory.
template <typename Job>
class WeightFeed {
 public:
  __device__ WeightFeed(const Job& job, int tileUnits, int firstUnit, int endUnit)
      : job_(job), tileUnits_(tileUnits), left_(endUnit - firstUnit) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    output_ = warp * kStripOutputs + lane / 4;
    column_ = lane % 4 * kLaneColumns;
    place_ = sharedAddress(dynamicShared()) + warp * kRingBytes + lane * 16;
    tile_ = firstUnit / tileUnits;
    unit_ = firstUnit % tileUnits;
    findRows();
  }

  /// Begins the next unit; an empty group behind the last, so that groups count units.
  __device__ void begin() {
    if (left_ > 0) {
      copyUnit();
      --left_;
      slot_ = slot_ + 1 == kStages ? 0 : slot_ + 1;
      if (++unit_ == tileUnits_) {
        unit_ = 0;
        ++tile_;
        if (left_ > 0) findRows();
      }
    }
    commitCopies();
  }

 private:
  __device__ void findRows() {
    upper_ = job_.weightRow(tile_, output_);
    lower_ = job_.weightRow(tile_, output_ + 8);
  }

  __device__ void copyUnit() const {
    const SharedAddress to = place_ + slot_ * kStageBytes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = unit_ * kUnitColumns + half * kUnitColumns / 2 + column_;
      // Zeros behind a row's end: nothing is read there.
      const int bytes = column < job_.weight.columns ? 16 : 0;
      const int64_t offset = bytes == 0 ? 0 : static_cast<int64_t>(column) * 2;
      copyAsync(to + 2 * half * kLaneStride, upper_ + offset, bytes);
      copyAsync(to + (2 * half + 1) * kLaneStride, lower_ + offset, bytes);
    }
  }

  const Job& job_;
  const uint8_t* upper_;
  const uint8_t* lower_;
  SharedAddress place_;
  int tileUnits_;
  int left_;
  int output_;
  int column_;
  int tile_;
  int unit_;
  int slot_ = 0;
};

/// A lane's elements of one unit's columns of x.
template <int kRowTiles>
struct XUnit {
  uint4 chunks[2][kRowTiles];

  __device__ __forceinline__ void load(const uint8_t* const (&rows)[kRowTiles], int unit,
                                       int columns) {
    const int part = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = unit * kUnitColumns + half * kUnitColumns / 2 + part * kLaneColumns;
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        chunks[half][i] = column < columns ? *reinterpret_cast<const uint4*>(rows[i] + column * 2)
                                           : make_uint4(0, 0, 0, 0);
      }
    }
  }
};

/// sums += the unit in `stage`, this lane's first place there, times x.
template <int kRowTiles>
__device__ __forceinline__ void multiplyUnit(float (&sums)[kRowTiles][4], const uint8_t* stage,
                                             const XUnit<kRowTiles>& x) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto* const chunks = reinterpret_cast<const uint4*>(stage + 2 * half * kLaneStride);
    const uint4 a = chunks[0];
    const uint4 b = chunks[kWarp];
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const uint4 rows = x.chunks[half][i];
      multiplyAdd(sums[i], {a.x, b.x, a.y, b.y}, {rows.x, rows.y});
      multiplyAdd(sums[i], {a.z, b.z, a.w, b.w}, {rows.z, rows.w});
    }
  }
}

/// The sums of one tile, in shared memory behind the rings.
struct TileSums {
  float* memory;

  __device__ float& at(int row, int output) const { return memory[row * kSumStride + output]; }

  template <int kRowTiles>
  __device__ __forceinline__ void put(const float (&sums)[kRowTiles][4]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int group = static_cast<int>(threadIdx.x) % kWarp / 4;
    const int part = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = i * kTileRows + 2 * part + j % 2;
        at(row, warp * kStripOutputs + group + j / 2 * 8) = sums[i][j];
      }
    }
  }
};

/// Leaves this block's part of a tile to the others. True in the block that comes last: its `sums`
/// are the whole tile's then. `slotRows`: rows that a slot of the partials has room for.
__device__ __forceinline__ bool meetOthers(const TileSums& sums, const StreamRoom& room,
                                           const StreamShares& shares, int tile, int tileUnits,
                                           int count, int slotRows) {
  const int first = shares.blockOf(tile * tileUnits);
  const int others = shares.blockOf((tile + 1) * tileUnits - 1) - first;
  const auto slotOf = [&](int block) {
    // A block's first tile has the even slot: it is the last one too when there is but one.
    const int second = shares.start(block) / tileUnits == tile ? 0 : 1;
    return room.partials + static_cast<int64_t>(2 * block + second) * slotRows * kTileOutputs;
  };

  // 1. This block's part, seen by all before its arrival is.
  float* const own = slotOf(static_cast<int>(blockIdx.x));
  for (int i = threadIdx.x; i < count * kTileOutputs; i += kStreamThreads) {
    own[i] = sums.at(i / kTileOutputs, i % kTileOutputs);
  }
  __threadfence();
  __syncthreads();
  const bool last = threadIdx.x == 0 && atomicAdd(&room.arrivals[first], 1) == others;
  if (!__syncthreads_or(last)) return false;

  // 2. All parts, in the order of their columns. Past the first cache, which may hold older ones.
  __threadfence();
  if (threadIdx.x == 0) room.arrivals[first] = 0;
  for (int i = threadIdx.x; i < count * kTileOutputs; i += kStreamThreads) {
    float sum = 0.0f;
#pragma unroll 4
    for (int block = first; block <= first + others; ++block) sum += __ldcg(slotOf(block) + i);
    sums.at(i / kTileOutputs, i % kTileOutputs) = sum;
  }
  __syncthreads();
  return true;
}

/// Multiplies and finishes this block's share. A job has
///   x, weight, count     operands, and the rows of x: at most 8 * kRowTiles
///   tiles()              ceil(outputs / outputs of a tile)
///   weightRow(tile, i)   address of the tile's row i of kTileOutputs; any row behind the last
///   finish(tile, sums)   stores what a tile's sums make; all threads call it
template <int kRowTiles, typename Job>
__device__ __forceinline__ void streamWeights(const Job& job, const StreamRoom& room) {
  constexpr bool kAhead = kRowTiles <= 2;
  letNextStart();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int columns = job.weight.columns;
  const int tileUnits = (columns + kUnitColumns - 1) / kUnitColumns;
  const StreamShares shares{job.tiles() * tileUnits, static_cast<int>(gridDim.x)};
  const int first = shares.start(static_cast<int>(blockIdx.x));
  const int end = shares.start(static_cast<int>(blockIdx.x) + 1);

  // 1. Weights are constants: as many as fit are on their way while other kernels run.
  WeightFeed<Job> feed(job, tileUnits, first, end);
  for (int i = 0; i < kStages; ++i) feed.begin();
  waitForPrevious();

  // 2. Rows of x of this lane. One behind the last is the last once more; its sum is not stored.
  const uint8_t* rows[kRowTiles];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    rows[i] = job.x.row(min(i * kTileRows + lane / 4, job.count - 1));
  }

  // 3. Unit after unit; x is a unit ahead where registers allow, since it comes from the second
  //    cache at times.
  uint8_t* const shared = dynamicShared();
  const uint8_t* const ring = shared + warp * kRingBytes + lane * 16;
  const TileSums tileSums{reinterpret_cast<float*>(shared + kStreamWarps * kRingBytes)};
  float sums[kRowTiles][4] = {};
  XUnit<kRowTiles> x;
  int unit = first % tileUnits;
  x.load(rows, unit, columns);
  int slot = 0;
  for (int at = first, tileStart = first; at < end; ++at) {
    const int tile = at / tileUnits;
    const int nextUnit = unit + 1 == tileUnits ? 0 : unit + 1;
    XUnit<kRowTiles> ahead;
    if constexpr (kAhead) ahead.load(rows, nextUnit, columns);
    waitCopies<kStages - 1>();
    multiplyUnit(sums, ring + slot * kStageBytes, x);
    feed.begin();
    if constexpr (kAhead) {
      x = ahead;
    } else {
      x.load(rows, nextUnit, columns);
    }
    unit = nextUnit;
    slot = slot + 1 == kStages ? 0 : slot + 1;
    if (nextUnit != 0 && at + 1 < end) continue;

    // 4. The tile's end, or the share's.
    tileSums.put(sums);
    __syncthreads();
    const bool whole = at + 1 - tileStart == tileUnits;
    if (whole || meetOthers(tileSums, room, shares, tile, tileUnits, job.count,
                            kRowTiles * kTileRows)) {
      job.finish(tile, tileSums);
    }
    // The next tile's sums go where these are.
    __syncthreads();
    tileStart = at + 1;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] = 0.0f;
    }
  }
}

}  // namespace perigee
