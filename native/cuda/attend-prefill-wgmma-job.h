// One block of prefill attention on Hopper (attend-prefill-wgmma.cu): what it works on, its shared
// memory, and the warp that brings keys and values there.
#pragma once

#include "attention-split.h"
#include "hopper.h"
#include "packed-rows.h"
#include "panels.h"
#include "softmax-tile.h"

namespace perigee {

struct AttendPrefillWgmmaParams {
  TensorMap cache;  // [N][K][keys, values][P][D], of one layer
  PackedRows out;   // bf16
  AttentionInput input;
};

constexpr int kConsumers = 2;  // warpgroups
constexpr int kRows = 64 * kConsumers;
constexpr int kKeys = kTileKeys;
constexpr int kStages = 2;
constexpr int kThreads = (kConsumers + 1) * kWarpgroup;

/// Registers per thread: 65536 in all, and the producer needs few.
constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
static_assert(kWarpgroup * (kProducerRegisters + kConsumers * kConsumerRegisters) <= 65536, "");

/// Named barriers: one per consumer among its own threads, one that gives it its turn.
constexpr int kOwnBarrier = 1;
constexpr int kTurnBarrier = kOwnBarrier + kConsumers;

template <int kHeadDim>
struct PrefillMemory {
  static constexpr int kPanels = kHeadDim / kPanelColumns;
  static constexpr int kPanelBytes = kKeys * kPanelRowBytes;
  static constexpr int kTileBytes = kPanels * kPanelBytes;
  static_assert(kRows == kKeys, "one panel size");

  uint8_t query[kTileBytes];
  uint8_t keys[kStages][kTileBytes];
  uint8_t values[kStages][kTileBytes];
  Barrier keysFull[kStages];
  Barrier keysFree[kStages];
  Barrier valuesFull[kStages];
  Barrier valuesFree[kStages];
};

/// Rows of one kv head of one sequence: what a block works on.
struct PrefillJob {
  int sequence;
  int firstToken;  // of the sequence in the batch
  int firstNew;    // its position
  int first;       // row
  int rows;        // 0: nothing to do
  int kvHead;
  int group;
  int begin;  // positions that any of the rows sees: from here
  int end;    // up to here
  int context;

  __device__ int token(int row) const { return (first + min(row, rows - 1)) / group; }
  __device__ int head(int row) const { return kvHead * group + (first + row) % group; }
  __device__ int ownPosition(int row) const { return firstNew + token(row); }
  __device__ int lastTile() const { return (end - 1) / kKeys; }
  __device__ int tiles() const { return end <= begin ? 0 : lastTile() - begin / kKeys + 1; }
};

/// The first position that a row sees.
__device__ __forceinline__ int beginOf(const AttentionRows& rows, int ownPosition) {
  return rows.window > 0 ? max(0, ownPosition - rows.window + 1) : 0;
}

/// Tile number `tile` of a batch. Sequence s has the numbers from s + queryStarts[s] * group /
/// kRows on: enough for all its rows, and known without a sum over the sequences before it.
/// Sequences that are decoded have no rows. All threads of a block call it.
__device__ __forceinline__ PrefillJob jobOf(const AttentionInput& input, int tile, int kvHead) {
  const AttentionRows& rows = input.rows;
  const int group = input.group();
  const auto firstTile = [&](int sequence) {
    return static_cast<int>(static_cast<int64_t>(rows.queryStarts[sequence]) * group / kRows) +
           sequence;
  };
  int before = 0;
  for (int start = 0; start < rows.sequences; start += kThreads) {
    const int sequence = start + static_cast<int>(threadIdx.x);
    before += __syncthreads_count(sequence < rows.sequences && firstTile(sequence) <= tile);
  }
  PrefillJob job = {};
  if (before == 0) return job;
  job.sequence = before - 1;
  job.firstToken = rows.queryStarts[job.sequence];
  const int tokens = rows.queryStarts[before] - job.firstToken;
  if (isDecode(input, tokens)) return job;
  job.context = rows.contextLengths[job.sequence];
  job.firstNew = job.context - tokens;
  job.first = (tile - firstTile(job.sequence)) * kRows;
  job.rows = min(kRows, max(0, tokens * group - job.first));
  job.kvHead = kvHead;
  job.group = group;
  if (job.rows == 0) return job;
  job.begin = beginOf(rows, job.ownPosition(0));
  job.end = job.ownPosition(job.rows - 1) + 1;
  return job;
}

/// The warp that brings keys and values, a cache block at a time, as boxes of one panel each. A
/// lane finds one block of every tile.
template <int kHeadDim>
struct Producer {
  using Memory = PrefillMemory<kHeadDim>;
  const AttendPrefillWgmmaParams& p;
  const PrefillJob& job;
  Memory& memory;
  int lane;

  __device__ int blockTokens() const { return p.input.cache.blockTokens; }

  /// The lane's cache block in tile `index` from the end; -1, which is all zeros, where no row sees
  /// it: it may be nobody's by now, or not yet.
  __device__ int blockOf(int index) const {
    const int position = (job.lastTile() - index) * kKeys + lane * blockTokens();
    const bool inTile = lane < kKeys / blockTokens() && index < job.tiles();
    const bool seen = position + blockTokens() > job.begin && position < job.end;
    if (!inTile || !seen) return -1;
    return p.input.blockTables[job.sequence * p.input.blocksPerTable + position / blockTokens()];
  }

  /// `half`: 0 for keys, 1 for values. One lane asks for all: copies are made of uniform registers.
  __device__ void bring(uint8_t* tile, int block, int half, Barrier& full) const {
    if (lane == 0) full.expectBytes(Memory::kTileBytes);
    for (int i = 0; i < kKeys / blockTokens(); ++i) {
      const int from = __shfl_sync(0xffffffffu, block, i);
      if (lane != 0) continue;
      uint8_t* const to = tile + i * blockTokens() * kPanelRowBytes;
#pragma unroll
      for (int panel = 0; panel < Memory::kPanels; ++panel) {
        copyBox(to + panel * Memory::kPanelBytes, p.cache,
                {{panel * kPanelColumns, 0, half, job.kvHead, from}}, full);
      }
    }
  }

  __device__ void bringKeys(int index, int block) const {
    const int stage = index % kStages;
    memory.keysFree[stage].wait((index / kStages + 1) % 2);
    bring(memory.keys[stage], block, 0, memory.keysFull[stage]);
  }

  __device__ void bringValues(int index, int block) const {
    const int stage = index % kStages;
    memory.valuesFree[stage].wait((index / kStages + 1) % 2);
    bring(memory.values[stage], block, 1, memory.valuesFull[stage]);
  }

  /// Keys run ahead of values by a tile, as they are used.
  __device__ void run() const {
    const int tiles = job.tiles();
    int block = blockOf(0);
    bringKeys(0, block);
    for (int index = 1; index < tiles; ++index) {
      const int next = blockOf(index);
      bringKeys(index, next);
      bringValues(index - 1, block);
      block = next;
    }
    bringValues(tiles - 1, block);
  }
};

}  // namespace perigee
