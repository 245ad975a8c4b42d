// The order in which linear-i8.cu walks the columns of a row, and how it adds what it finds: a sum
// has the bits of linear-rows.h.
//
// There lane l = 8 j + c of 32 sums chunk c of the groups j, j + 4, j + 8, ... in this order, and
// lanes are added in pairs 16, 8, 4, 2 and 1 apart. Here
//   a pass    takes of each group two chunks that are 4 apart and their neighbours: 0, 1, 4 and 5,
//             then 2, 3, 6 and 7. Neighbours are 32 bytes, the least that memory moves
//   its turns take j = 0, 2, 1 and 3
//   a step    of a turn is one group
#pragma once

#include "packed-rows.h"

namespace perigee {

constexpr int kChunkBytes = 16;  // columns of a chunk, and their bytes
constexpr int kGroupChunks = kGroupColumns / kChunkBytes;
constexpr int kPasses = 2;
constexpr int kTurns = 4;
constexpr int kTurnChunks = kGroupChunks / kPasses;
/// Bytes from a chunk of the first pass to that of the second.
constexpr int kPassOffset = 2 * kChunkBytes;

/// Which chunk of its group is the one at `index` of a pass.
__device__ __forceinline__ constexpr int chunkOfPass(int pass, int index) {
  return pass * 2 + index % 2 + index / 2 * 4;
}

__device__ __forceinline__ constexpr int firstGroup(int turn) { return turn % 2 * 2 + turn / 2; }

/// One group of one turn of one pass.
struct Step {
  int pass;
  int turn;
  int group;

  /// The step behind this one, of a row with `groups`; pass kPasses is behind the last.
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

/// All sums of one pass for kHeld outputs, turn by turn. `memory` is this thread's place in shared
/// memory, kAside numbers at a distance of kThreads: registers do not suffice.
template <int kHeld, int kThreads>
struct PassSums {
  static constexpr int kCount = kTurnChunks * kHeld;
  static constexpr int kAside = 2 * kCount;
  float* memory;
  float now[kTurnChunks][kHeld];  // of the turn at hand; of the pass when it has ended

  __device__ __forceinline__ void beginTurn() {
    each([](float& now, float&, float&) { now = 0.0f; });
  }

  /// Lanes 16 apart are two turns that follow each other, lanes 8 apart two such pairs. `open` has
  /// the turn before, `pair` the first pair.
  __device__ __forceinline__ void endTurn(int turn) {
    if (turn % 2 == 0) {
      each([](float& now, float& open, float&) { open = now; });
    } else if (turn == 1) {
      each([](float& now, float& open, float& pair) { pair = open + now; });
    } else {
      each([](float& now, float& open, float& pair) { now = pair + (open + now); });
    }
  }

  /// A sum of output `i` when all turns have ended; `half` says which of the two. Lanes 4 apart.
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
