// GEMM of many f32 rows on f32 units: out = x W^T + bias, with the bits of linear_f32.
//
//    block: 64 rows by 64 outputs          256 threads, 16 x 16, each 4 rows by 4 outputs
//    slot: one chunk of 4 columns          4 slots a stage, 4 stages ahead by cp.async
//
// Formula  linear.cu
// Order    linear-rows.h: 32 sums, each of every 32nd chunk, added in pairs that are 16, 8, 4, 2
//          and 1 apart. Here a thread makes the 32 sums one after the other, those that are added
//          first next to each other, so that five waiting sums are enough.
// Bound    the f32 units. A chunk of 16 bytes is read from L2 in a sector of 32
// Checked  bench/gpu/smoke.mjs, linear; test/contracts: the same bits for any number of rows
#include "linear-params.h"
#include "linear-rows.h"
#include "tensor-core.h"

namespace perigee {

namespace {

constexpr int kTileRows = 64;
constexpr int kTileOutputs = 64;
constexpr int kSide = 16;
constexpr int kThreads = kSide * kSide;
constexpr int kEach = kTileRows / kSide;
constexpr int kSlots = 4;
constexpr int kStages = 4;
constexpr int kLanes = kWarp;
constexpr int kLevels = 5;
static_assert(kLanes == 1 << kLevels, "pairs of pairs");
static_assert(kTileRows * kSlots == kThreads && kTileOutputs == kTileRows, "a copy per thread");

/// Chunks of a stage: [slot, row] of x and [slot, output] of the weight.
struct Stage {
  float4 x[kSlots][kTileRows];
  float4 weight[kSlots][kTileOutputs];
};

/// The columns in the order in which they are summed: the chunks of a lane of linear-rows.h, then
/// those of the lane that is added to it first.
struct Slots {
  int chunks;   // of a row
  int perLane;  // slots of a lane; the last one of some lanes has no chunk

  __device__ explicit Slots(int columns)
      : chunks(columns / 4), perLane((columns / 4 + kLanes - 1) / kLanes) {}

  __device__ int count() const { return kLanes * perLane; }

  /// The chunk of a lane's slot; `chunks` or more: none. Lane `rank` in the order of sums has the
  /// number whose bits are those of `rank` the other way round.
  __device__ int chunkOf(int rank, int inLane) const {
    const int lane = (rank & 1) << 4 | (rank & 2) << 2 | (rank & 4) | (rank & 8) >> 2 |
                     (rank & 16) >> 4;
    return lane + inLane * kLanes;
  }

  __device__ int chunkOf(int slot) const { return chunkOf(slot / perLane, slot % perLane); }
};

/// Sums of a thread's outputs.
using Sums = float[kEach][kEach];

/// Adds a lane's sums to those that wait for it: after an odd lane one sum more is whole.
__device__ __forceinline__ void addLane(int rank, Sums& sums, Sums (&waiting)[kLevels]) {
#pragma unroll
  for (int level = 0; level < kLevels; ++level) {
    const bool pairs = ((rank >> level) & 1) != 0;
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
#pragma unroll
      for (int o = 0; o < kEach; ++o) {
        if (pairs) {
          sums[r][o] = waiting[level][r][o] + sums[r][o];
        } else {
          waiting[level][r][o] = sums[r][o];
        }
      }
    }
    if (!pairs) return;
  }
}

/// Products of one chunk.
__device__ __forceinline__ void addChunk(const float4* x, const float4* weight, Sums& sums) {
  float4 rows[kEach];
  float4 outputs[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    rows[i] = x[i * kSide];
    outputs[i] = weight[i * kSide];
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
#pragma unroll
    for (int o = 0; o < kEach; ++o) {
      float sum = sums[r][o];
      sum = fmaf(rows[r].x, outputs[o].x, sum);
      sum = fmaf(rows[r].y, outputs[o].y, sum);
      sum = fmaf(rows[r].z, outputs[o].z, sum);
      sums[r][o] = fmaf(rows[r].w, outputs[o].w, sum);
    }
  }
}

}  // namespace

/// Columns are a multiple of 4.
PERIGEE_KERNEL __launch_bounds__(kThreads)
perigee_linear_f32_many(const __grid_constant__ LinearParams p) {
  joinStream();
  __shared__ __align__(16) Stage stages[kStages];
  const int thread = static_cast<int>(threadIdx.x);
  const int firstRow = static_cast<int>(blockIdx.y) * kTileRows;
  const int firstOutput = static_cast<int>(blockIdx.x) * kTileOutputs;
  const Slots slots(p.weight.columns);

  // 1. Each thread copies one chunk of x and one of the weight per stage. Rows and outputs after
  // the last are clamped, and not stored.
  const int copySlot = thread / kTileRows;
  const int copyPlace = thread % kTileRows;
  const float4* const xRow =
      reinterpret_cast<const float4*>(p.x.row(min(firstRow + copyPlace, p.count - 1)));
  const float4* const weightRow =
      reinterpret_cast<const float4*>(p.weight.row(min(firstOutput + copyPlace, p.outputs - 1)));
  const auto fill = [&](int stage, int slot) {
    const int chunk = slot < slots.count() ? slots.chunkOf(slot) : slots.chunks;
    if (chunk < slots.chunks) {
      copyAsync(sharedAddress(&stages[stage].x[copySlot][copyPlace]), xRow + chunk);
      copyAsync(sharedAddress(&stages[stage].weight[copySlot][copyPlace]), weightRow + chunk);
    }
    commitCopies();
  };
  for (int stage = 0; stage < kStages - 1; ++stage) fill(stage, stage * kSlots + copySlot);

  // 2. Stage by stage.
  const int row = thread / kSide;
  const int output = thread % kSide;
  Sums sums = {};
  Sums waiting[kLevels];
  int rank = 0;
  int inLane = 0;
  for (int first = 0, stage = 0; first < slots.count(); first += kSlots) {
    waitCopies<kStages - 2>();
    __syncthreads();
    // After the barrier no thread reads the stage before this one any more.
    const int free = stage == 0 ? kStages - 1 : stage - 1;
    fill(free, first + (kStages - 1) * kSlots + copySlot);
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slots.chunkOf(rank, inLane) < slots.chunks) {
        addChunk(&stages[stage].x[slot][row], &stages[stage].weight[slot][output], sums);
      }
      if (++inLane < slots.perLane) continue;
      addLane(rank, sums, waiting);
      inLane = 0;
      if (++rank == kLanes) break;
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
#pragma unroll
        for (int o = 0; o < kEach; ++o) sums[r][o] = 0.0f;
      }
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }

  // 3. The last lane's sums are the whole ones.
#pragma unroll
  for (int r = 0; r < kEach; ++r) {
    const int ownRow = firstRow + row + r * kSide;
    if (ownRow >= p.count) continue;
#pragma unroll
    for (int o = 0; o < kEach; ++o) {
      const int ownOutput = firstOutput + output + o * kSide;
      if (ownOutput < p.outputs) p.store(ownRow, ownOutput, sums[r][o]);
    }
  }
}

}  // namespace perigee
