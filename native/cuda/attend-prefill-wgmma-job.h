// Jobs of prefill attention on Hopper (attend-prefill-wgmma.cu), and the shared memory through
// which a block's warps pass jobs and operands.
#pragma once

#include "attention-input.h"
#include "hopper.h"
#include "packed-rows.h"
#include "panels.h"
#include "softmax-tile.h"

namespace perigee {

struct AttendPrefillWgmmaParams {
  TensorMap cache;    // one layer as [rows / 8][panels][8][64], keys and values as stored
  PackedRows out;     // bf16
  uint32_t* arrived;  // counter of taken jobs; 0 between kernels
  AttentionInput input;
};

constexpr int kConsumers = 2;  // consumer warpgroups
constexpr int kHalfRows = 64;  // rows of one consumer
constexpr int kRows = kHalfRows * kConsumers;
constexpr int kKeys = kTileKeys;
constexpr int kThreads = (kConsumers + 1) * kWarpgroup;

/// Stages of keys, values and queries in shared memory, which has room for seven tiles. There are
/// two of queries: those of the next job load while the current job is processed.
constexpr int kKeyStages = 2;
constexpr int kValueStages = 2;
constexpr int kQueries = 2;
constexpr int kJobs = 2;

/// Registers per thread, of 65536 in all. The producer needs registers for the query loads in
/// flight.
constexpr int kProducerRegisters = 56;
constexpr int kConsumerRegisters = 224;
/// Registers of each thread when the block starts: an equal share, in units of 8. Asking for more
/// in total would not fail but block forever.
constexpr int kRegistersAtStart = 65536 / kThreads / 8 * 8;
static_assert(kProducerRegisters + kConsumers * kConsumerRegisters <=
                  (kConsumers + 1) * kRegistersAtStart,
              "registers that the block has");

/// Warps of the producer warpgroup: the first loads keys and values, the others load queries.
constexpr int kQueryWarps = kWarpgroup / kWarp - 1;
constexpr int kConsumerWarps = kConsumers * kWarpgroup / kWarp;

/// Named barriers: one per consumer among its own threads, and one per consumer for its turn.
constexpr int kOwnBarrier = 1;
constexpr int kTurnBarrier = kOwnBarrier + kConsumers;

/// Current slot of a ring buffer of kSlots, and the parity of its barrier phase.
template <int kSlots>
struct PipelineState {
  int slot = 0;
  int parity = 0;

  __device__ void advance() {
    if (++slot < kSlots) return;
    slot = 0;
    parity ^= 1;
  }
};

/// Barriers of a ring buffer: the producer waits until a slot is free, the consumer until it is
/// full.
template <int kSlots>
struct RingBarriers {
  Barrier full[kSlots];
  Barrier free[kSlots];

  __device__ void open(int fillers, int readers) {
    for (int i = 0; i < kSlots; ++i) {
      full[i].init(fillers);
      free[i].init(readers);
    }
  }
  __device__ Barrier& waitFree(const PipelineState<kSlots>& state) {
    free[state.slot].wait(state.parity ^ 1);
    return full[state.slot];
  }
  __device__ void waitFull(const PipelineState<kSlots>& state) {
    full[state.slot].wait(state.parity);
  }
};

/// The first position that a row sees.
__device__ __forceinline__ int beginOf(const AttentionRows& rows, int ownPosition) {
  return rows.window > 0 ? max(0, ownPosition - rows.window + 1) : 0;
}

/// Rows of one kv head of one sequence.
struct PrefillJob {
  int sequence;
  int firstToken;  // first token of the sequence in the batch
  int firstNew;    // position of that token
  int rowToken;    // token of the first row, in the sequence
  int rowHead;     // head of the first row, in the group
  int rows;        // 0: no more jobs
  int kvHead;
  int group;
  uint32_t inverse;  // reciprocal of the group, for division
  int begin;         // positions visible to any of the rows: begin
  int end;           // and end

  /// Sets the rows from number `first` of the sequence's rows on.
  __device__ void setRows(int first, int count, int groupHeads) {
    group = groupHeads;
    rowToken = first / groupHeads;
    rowHead = first % groupHeads;
    rows = count;
    inverse = (1u << kInverseBits) / static_cast<uint32_t>(groupHeads) + 1;
  }

  __device__ int token(int row) const { return rowToken + groups(rowHead + min(row, rows - 1)); }
  __device__ int head(int row) const {
    const int place = rowHead + row;
    return kvHead * group + place - groups(place) * group;
  }
  __device__ int ownPosition(int row) const { return firstNew + token(row); }
  /// Index of the row's first element in queries and outputs.
  __device__ int64_t rowStart(int row, const AttentionInput& input) const {
    const int64_t at = static_cast<int64_t>(firstToken + token(row)) * input.heads + head(row);
    return at * input.cache.headDim;
  }
  __device__ int lastTile() const { return (end - 1) / kKeys; }
  __device__ int tiles() const { return end <= begin ? 0 : lastTile() - begin / kKeys + 1; }

 private:
  static constexpr int kInverseBits = 20;

  /// place / group without a slow integer division. Exact while place * group is below 2^20 and
  /// place is below group + kRows.
  __device__ int groups(int place) const {
    return static_cast<int>(static_cast<uint32_t>(place) * inverse >> kInverseBits);
  }
};

template <int kHeadDim>
struct PrefillMemory {
  static constexpr int kTileBytes = kKeys * PanelTile<kHeadDim>::kRowBytes;
  static_assert(kRows == kKeys, "one tile size");

  uint8_t query[kQueries][kTileBytes];
  uint8_t keys[kKeyStages][kTileBytes];
  uint8_t values[kValueStages][kTileBytes];
  PrefillJob jobs[kJobs];
  RingBarriers<kJobs> jobRing;
  RingBarriers<kQueries> queryRings[kConsumers];
  RingBarriers<kKeyStages> keyRing;
  RingBarriers<kValueStages> valueRing;

  /// Initialises the barriers. One thread calls it. The struct must begin at a multiple of 1024
  /// bytes.
  __device__ void open() {
    static_assert(sizeof(PrefillMemory) + 1024 <= 227 << 10, "what a block may have");
    jobRing.open(1, kConsumerWarps + kQueryWarps);
    for (RingBarriers<kQueries>& ring : queryRings) ring.open(kQueryWarps, kWarpgroup / kWarp);
    keyRing.open(1, kConsumerWarps);
    valueRing.open(1, kConsumerWarps);
    publishBarriers();
  }
};

/// Reads the jobs of a block one after another; every consuming warp has its own reader.
template <int kHeadDim>
struct JobReader {
  PrefillMemory<kHeadDim>& memory;
  PipelineState<kJobs> state;

  __device__ PrefillJob next() {
    memory.jobRing.waitFull(state);
    const PrefillJob job = memory.jobs[state.slot];
    __syncwarp();
    if (threadIdx.x % kWarp == 0) memory.jobRing.free[state.slot].arrive();
    state.advance();
    return job;
  }
};

}  // namespace perigee
