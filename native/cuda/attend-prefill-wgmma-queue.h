// Job scheduling of prefill attention on Hopper (attend-prefill-wgmma.cu): a persistent block takes
// the next job of a global queue whenever it can start one, so that all blocks end at about the
// same time.
#pragma once

#include "attend-prefill-wgmma-job.h"

namespace perigee {

/// Number of kv heads whose jobs are adjacent in the queue. A smaller number keeps fewer keys and
/// values in use at once.
constexpr int kHeadsTogether = 1 << 16;

/// The job queue, used by one warp. A job is a tile of 128 rows of one kv head. Jobs are ordered by
/// sets of kHeadsTogether heads. Inside a set they go from the batch's last tile to its first: the
/// later tiles of a sequence attend to more positions, so the shortest jobs come last.
struct JobQueue {
  const AttendPrefillWgmmaParams& p;
  int lane;
  int jobs;  // total number
  int tiles;

  __device__ JobQueue(const AttendPrefillWgmmaParams& params, int ownLane)
      : p(params), lane(ownLane) {
    tiles = find(0x7fffffff).firstTile;
    jobs = tiles * p.input.cache.kvHeads;
  }

  /// The first job of a block follows from its index, without the counter.
  __device__ PrefillJob first() const {
    const int number = static_cast<int>(blockIdx.x);
    return number < jobs ? jobAt(number) : next();
  }

  /// The next job; one with 0 rows when there are no more. Each block requests one job too many.
  /// The block with the last request of all resets the counter for the next launch.
  __device__ PrefillJob next() const {
    const int blocks = static_cast<int>(gridDim.x);
    int ticket = 0;
    if (lane == 0) {
      ticket = static_cast<int>(atomicAdd(p.arrived, 1u));
      if (ticket == max(jobs, blocks) - 1) *p.arrived = 0;
    }
    const int number = blocks + __shfl_sync(0xffffffffu, ticket, 0);
    return number < jobs ? jobAt(number) : PrefillJob{};
  }

 private:
  struct Found {
    int sequence;
    int firstTile;
    int tokens;
  };

  __device__ int tokensOf(int sequence) const {
    const int* const starts = p.input.rows.queryStarts + sequence;
    const int tokens = starts[1] - starts[0];
    return isDecode(p.input, tokens) ? 0 : tokens;
  }

  /// The sequence that contains the tile; if none does, `firstTile` is the number of tiles.
  __device__ Found find(int tile) const {
    int before = 0;
    for (int start = 0; start < p.input.rows.sequences; start += kWarp) {
      const int sequence = start + lane;
      const int tokens = sequence < p.input.rows.sequences ? tokensOf(sequence) : 0;
      const int own = (tokens * p.input.group() + kRows - 1) / kRows;
      int end = before + own;
      for (int lanes = 1; lanes < kWarp; lanes *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, end - before, lanes);
        if (lane >= lanes) end += other;
      }
      const int owner = __ffs(static_cast<int>(__ballot_sync(0xffffffffu, end > tile))) - 1;
      if (owner >= 0) {
        return {start + owner, __shfl_sync(0xffffffffu, end - own, owner),
                __shfl_sync(0xffffffffu, tokens, owner)};
      }
      before = __shfl_sync(0xffffffffu, end, kWarp - 1);
    }
    return {0, before, 0};
  }

  __device__ PrefillJob jobAt(int number) const {
    const AttentionRows& rows = p.input.rows;
    const int kvHeads = p.input.cache.kvHeads;
    const int together = min(kHeadsTogether, kvHeads);
    const int firstHead = number / (tiles * together) * together;
    const int heads = min(together, kvHeads - firstHead);
    const int place = number - firstHead * tiles;
    const int tile = tiles - 1 - place / heads;
    const Found found = find(tile);
    PrefillJob job;
    job.sequence = found.sequence;
    job.firstToken = rows.queryStarts[found.sequence];
    job.firstNew = rows.contextLengths[found.sequence] - found.tokens;
    const int group = p.input.group();
    const int first = (tile - found.firstTile) * kRows;
    job.setRows(first, min(kRows, found.tokens * group - first), group);
    job.kvHead = firstHead + place % heads;
    job.begin = beginOf(rows, job.ownPosition(0));
    job.end = job.ownPosition(job.rows - 1) + 1;
    return job;
  }
};

}  // namespace perigee
