// The parts of attention that do not depend on the cache's element; see attention-tile.h.
#include "attention-tile.h"

#include "vector-math.h"

namespace perigee {
namespace {

// Softcap and mask for the groups where a row sees only some positions.
void hideInGroup(float* scores, const RowSight& sight, int position) {
  for (int i = 0; i < kGroupTokens; ++i) {
    if (!sight.sees(position + i)) scores[i] = kHidden;
  }
}

void capGroup(float* scores, float softcap) {
  for (int i = 0; i < kGroupTokens; i += kLanes) {
    store(scores + i, softcap * tanh(load(scores + i) / softcap));
  }
}

}  // namespace

std::pair<float, float> weightsInPlace(float* scores, const RowSight& sight, int firstPosition,
                                       int group, int groupEnd, float softcap) {
  const int begin = group * kGroupTokens;
  const int end = groupEnd * kGroupTokens;
  const int plainEnd = sight.treeBits == nullptr ? sight.end : std::min(sight.end, sight.treeStart);
  for (int i = begin; i < end; i += kGroupTokens) {
    if (softcap > 0) capGroup(scores + i, softcap);
    const int position = firstPosition + i;
    const bool whole = position >= sight.begin && position + kGroupTokens <= plainEnd;
    if (!whole) hideInGroup(scores + i, sight, position);
  }

  F32 maxima = broadcast(kHidden);
  for (int i = begin; i < end; i += kLanes) maxima = max(load(scores + i), maxima);
  const float max = maxLane(maxima);

  // exp(-inf - max) is 0, also where nothing is seen and max itself is -inf.
  const F32 reference = broadcast(max == kHidden ? 0.0f : max);
  F32 sums = F32{};
  for (int i = begin; i < end; i += kLanes) {
    const F32 weight = exp(load(scores + i) - reference);
    store(scores + i, weight);
    sums += weight;
  }
  return {max, sum(sums)};
}

void mergeStates(const RowStates& into, const RowStates& part, int rows, int valueStride) {
  for (int row = 0; row < rows; ++row) {
    if (part.max(row) == kHidden) continue;
    const float max = std::max(into.max(row), part.max(row));
    const float shrinkOld = std::exp(into.max(row) - max);
    const float shrinkNew = std::exp(part.max(row) - max);
    float* values = into.values(row);
    const float* added = part.values(row);
    for (int i = 0; i < valueStride; i += kLanes) {
      const F32 old = load(values + i) * shrinkOld;
      store(values + i, fma(load(added + i), broadcast(shrinkNew), old));
    }
    into.sum(row) = into.sum(row) * shrinkOld + part.sum(row) * shrinkNew;
    into.max(row) = max;
  }
}

void finishRow(float* out, const RowStates& states, int row, int headDim) {
  const float sum = states.sum(row);
  const float scale = sum > 0 ? 1.0f / sum : 0.0f;
  const float* values = states.values(row);
  for (int i = 0; i < headDim; ++i) out[i] = values[i] * scale;
}

}  // namespace perigee
