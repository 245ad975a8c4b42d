// The order in which linear-i8.cu processes the columns of a row and adds partial sums. It
// reproduces the bits of linear-rows.h.
//
// In linear-rows.h, lane l = 8 j + c of 32 sums chunk c of the groups j, j + 4, j + 8, ... in this
// order; then lanes are added in pairs 16, 8, 4, 2 and 1 apart. Here one thread does it in nested
// loops:
//   a pass   takes two pairs of adjacent chunks of each group, 4 apart: chunks 0, 1, 4 and 5, then
//            2, 3, 6 and 7. Two adjacent chunks are 32 bytes, a memory sector
//   a turn   takes the groups of one j, in the order j = 0, 2, 1, 3
//   a step   is one group of a turn
//
//    turn 0: j = 0, groups 0 4 8 ..    --+-- lanes 16 apart --+
//    turn 1: j = 2, groups 2 6 10 ..   --+                    |
//                                                             +-- lanes 8 apart -> sums of the pass
//    turn 2: j = 1, groups 1 5 9 ..    --+-- lanes 16 apart --+
//    turn 3: j = 3, groups 3 7 11 ..   --+
#pragma once

#include "packed-rows.h"

namespace perigee {

constexpr int kChunkBytes = 16;  // columns of a chunk; also its bytes
constexpr int kGroupChunks = kGroupColumns / kChunkBytes;
constexpr int kPasses = 2;
constexpr int kTurns = 4;
constexpr int kTurnChunks = kGroupChunks / kPasses;
/// Byte offset from a chunk of the first pass to that of the second.
constexpr int kPassOffset = 2 * kChunkBytes;

/// The chunk of its group that is at `index` of a pass.
__device__ __forceinline__ constexpr int chunkOfPass(int pass, int index) {
  return pass * 2 + index % 2 + index / 2 * 4;
}

__device__ __forceinline__ constexpr int firstGroup(int turn) { return turn % 2 * 2 + turn / 2; }

/// One group of one turn of one pass.
struct Step {
  int pass;
  int turn;
  int group;

  /// Advances to the next step, for rows with `groups` groups; ends with pass == kPasses.
  __device__ __forceinline__ void advance(int groups) {
    group += kTurns;
    while (group >= groups) {
      turn += 1;
      if (turn == kTurns) {
        turn = 0;
        pass += 1;
      }
      group = firstGroup(turn);
    }
  }
};

/// All sums of one pass for kHeld outputs, turn by turn. The sums do not fit the registers:
/// `memory` points to this thread's kAside floats in shared memory, with a stride of kThreads.
template <int kHeld, int kThreads>
struct PassSums {
  static constexpr int kCount = kTurnChunks * kHeld;
  static constexpr int kAside = 2 * kCount;
  float* memory;
  float now[kTurnChunks][kHeld];  // of the current turn; of the pass when it has ended

  __device__ __forceinline__ void beginTurn() {
    each([](float& now, float&, float&) { now = 0.0f; });
  }

  /// Combines the sums of turns as lanes are added: lanes 16 apart are two consecutive turns, lanes
  /// 8 apart two such pairs of turns. `open` holds the previous turn, `pair` the first pair.
  __device__ __forceinline__ void endTurn(int turn) {
    if (turn % 2 == 0) {
      each([](float& now, float& open, float&) { open = now; });
    } else if (turn == 1) {
      each([](float& now, float& open, float& pair) { pair = open + now; });
    } else {
      each([](float& now, float& open, float& pair) { now = pair + (open + now); });
    }
  }

  /// Sum of output `i` after all turns, with lanes 4 apart added; `half` selects one of the two.
  __device__ __forceinline__ float left(int half, int i) const {
    return now[half][i] + now[half + 2][i];
  }

 private:
  template <typename Work>
  __device__ __forceinline__ void each(const Work& work) {
#pragma unroll
    for (int chunk = 0; chunk < kTurnChunks; ++chunk) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        float* const aside = memory + (chunk * kHeld + i) * kThreads;
        work(now[chunk][i], aside[0], aside[kCount * kThreads]);
      }
    }
  }
};

}  // namespace perigee
