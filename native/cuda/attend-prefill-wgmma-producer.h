// Producer warps of prefill attention on Hopper: operand loads (attend-prefill-wgmma.cu).
#pragma once

#include "attend-prefill-wgmma-queue.h"
#include "warpgroup-products.h"

namespace perigee {

/// The warp that takes jobs and loads their keys and values by TMA. Of each cache block, the keys
/// are one copy and the values another, since the throughput of small copies is limited by their
/// number. Each lane copies one block of every tile.
template <int kHeadDim>
struct CacheCopier {
  using Memory = PrefillMemory<kHeadDim>;

  const AttendPrefillWgmmaParams& p;
  Memory& memory;
  int lane;
  int blockTokens;
  int blockShift;   // 2^blockShift = blockTokens
  int blockGroups;  // 8-row groups of a whole block
  int halfGroups;   // 8-row groups of one head's keys, or of its values
  PipelineState<kKeyStages> keys;
  PipelineState<kValueStages> values;
  PipelineState<kJobs> jobState;

  __device__ CacheCopier(const AttendPrefillWgmmaParams& params, Memory& shared, int ownLane)
      : p(params), memory(shared), lane(ownLane) {
    const KvLayer& cache = p.input.cache;
    blockTokens = cache.blockTokens;
    blockShift = __ffs(blockTokens) - 1;
    halfGroups = blockTokens / kSwizzleRows;
    blockGroups = static_cast<int>(cache.blockBytes / (kSwizzleRows * kHeadDim * 2));
  }

  __device__ void run() {
    const JobQueue queue(p, lane);
    PrefillJob job = queue.first();
    publish(job);
    while (job.rows > 0) {
      const int tiles = job.tiles();
      int block = blockOf(job, 0);
      if (tiles > 0) copyTile(memory.keys, memory.keyRing, keys, job, block, 0);
      const PrefillJob next = queue.next();
      publish(next);
      // Keys are loaded one tile ahead of values, the order in which consumers use them.
      int ahead = blockOf(job, 1);
      for (int index = 1; index < tiles; ++index) {
        const int behind = block;
        block = ahead;
        ahead = blockOf(job, index + 1);
        copyTile(memory.keys, memory.keyRing, keys, job, block, 0);
        copyTile(memory.values, memory.valueRing, values, job, behind, 1);
      }
      if (tiles > 0) copyTile(memory.values, memory.valueRing, values, job, block, 1);
      job = next;
    }
  }

 private:
  __device__ void publish(const PrefillJob& job) {
    Barrier& full = memory.jobRing.waitFree(jobState);
    if (lane == 0) {
      memory.jobs[jobState.slot] = job;
      full.arrive();
    }
    jobState.advance();
  }

  /// This lane's cache block in tile `index`, counted from the end. -1, which loads zeros, if no
  /// row sees the block: it may belong to another sequence or to none.
  __device__ int blockOf(const PrefillJob& job, int index) const {
    const int position = (job.lastTile() - index) * kKeys + (lane << blockShift);
    const bool inTile = lane << blockShift < kKeys && index < job.tiles();
    const bool seen = position + blockTokens > job.begin && position < job.end;
    if (!inTile || !seen) return -1;
    return p.input.blockTables[job.sequence * p.input.blocksPerTable + (position >> blockShift)];
  }

  /// Copies this lane's part of a KV tile. `half`: 0 for keys, 1 for values.
  template <int kStages>
  __device__ void copyTile(uint8_t (&stages)[kStages][Memory::kTileBytes],
                           RingBarriers<kStages>& ring, PipelineState<kStages>& state,
                           const PrefillJob& job, int block, int half) {
    Barrier& full = ring.waitFree(state);
    if (lane == 0) full.expectBytes(Memory::kTileBytes);
    __syncwarp();
    if (lane << blockShift < kKeys) {
      uint8_t* const to = stages[state.slot] + lane * halfGroups * PanelTile<kHeadDim>::kRowsStride;
      const int inBlock = (2 * job.kvHead + half) * halfGroups;
      const int group = block < 0 ? -halfGroups : block * blockGroups + inBlock;
      copyBox(to, p.cache, {{0, 0, 0, group, 0}}, full);
    }
    __syncwarp();
    state.advance();
  }
};

/// One of the warps that load queries and convert them to 16 bits, with zeros after a job's last
/// row. They load those of the next job while the consumers process the current one. Each query is
/// read once, so it should not evict keys and values from the cache.
template <int kHeadDim, typename T>
struct QueryLoader {
  using Memory = PrefillMemory<kHeadDim>;
  using Products = WarpgroupProducts<T>;
  static constexpr int kLaneColumns = 4;
  static constexpr int kRowLanes = kHeadDim / kLaneColumns;
  static constexpr int kWarpRows = kWarp / kRowLanes;
  static constexpr int kStepRows = kQueryWarps * kWarpRows;
  /// Loads in flight: about half of those for 64 rows.
  static constexpr int kQueryLoads = kHalfRows / kStepRows / 2 + 1;

  const AttendPrefillWgmmaParams& p;
  Memory& memory;
  int warp;  // index among kQueryWarps
  int lane;

  __device__ void run() const {
    JobReader<kHeadDim> jobs{memory, {}};
    PipelineState<kQueries> state;
    for (PrefillJob job = jobs.next(); job.rows > 0; job = jobs.next(), state.advance()) {
      for (int half = 0; half < kConsumers; ++half) {
        Barrier& full = memory.queryRings[half].waitFree(state);
        load(job, memory.query[state.slot], half * kHalfRows);
        publishShared();
        __syncwarp();
        if (lane == 0) full.arrive();
      }
    }
  }

 private:
  __device__ void load(const PrefillJob& job, uint8_t* tile, int begin) const {
    const int end = begin + kHalfRows;
    const int column = lane % kRowLanes * kLaneColumns;
    for (int start = begin + warp * kWarpRows + lane / kRowLanes; start < end;
         start += kQueryLoads * kStepRows) {
      float4 queries[kQueryLoads];
#pragma unroll
      for (int i = 0; i < kQueryLoads; ++i) {
        const int row = start + i * kStepRows;
        queries[i] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (row >= min(end, job.rows)) continue;
        const float* const from = p.input.query + job.rowStart(row, p.input) + column;
        queries[i] = __ldcs(reinterpret_cast<const float4*>(from));
      }
#pragma unroll
      for (int i = 0; i < kQueryLoads; ++i) {
        const int row = start + i * kStepRows;
        if (row < end) store(tile, row, column, queries[i]);
      }
    }
  }

  __device__ void store(uint8_t* tile, int row, int column, const float4& query) const {
    const uint2 packed = {Products::pair(query.x, query.y), Products::pair(query.z, query.w)};
    const int at = PanelTile<kHeadDim>::offset(row, column / 8) + column % 8 * 2;
    *reinterpret_cast<uint2*>(tile + at) = packed;
  }
};

}  // namespace perigee
