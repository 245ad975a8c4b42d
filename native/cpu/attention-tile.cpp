// The parts of attention that do not depend on the cache's element type; see attention-tile.h.
#include "attention-tile.h"

#include "vector-math.h"

namespace perigee {
namespace {

// Masks a group of which the row sees only some positions.
void maskGroup(float* scores, const RowMask& mask, int position) {
  for (int i = 0; i < kGroupTokens; ++i) {
    if (!mask.sees(position + i)) scores[i] = kMasked;
  }
}

void capGroup(float* scores, float softcap) {
  for (int i = 0; i < kGroupTokens; i += kLanes) {
    store(scores + i, softcap * tanh(load(scores + i) / softcap));
  }
}

}  // namespace

std::pair<float, float> weightsInPlace(float* scores, const RowMask& mask, const WeightSite& site) {
  const int begin = site.group * kGroupTokens;
  const int end = site.groupEnd * kGroupTokens;
  const int plainEnd = mask.hidden == nullptr ? mask.end : std::min(mask.end, mask.treeStart);
  F32 maxima = broadcast(kMasked);
  for (int i = begin; i < end; i += kGroupTokens) {
    if (site.softcap > 0) capGroup(scores + i, site.softcap);
    const int position = site.firstPosition + i;
    const bool whole = (position >= mask.begin && position + kGroupTokens <= plainEnd) ||
                       position + kGroupTokens <= mask.sinkEnd;
    if (!whole) maskGroup(scores + i, mask, position);
    for (int j = i; j < i + kGroupTokens; j += kLanes) maxima = max(load(scores + j), maxima);
  }
  const float max = maxLane(maxima);

  // A masked score is -inf, so its weight exp(-inf - max) is 0. Where nothing is visible, max is
  // -inf too, and -inf - max would be NaN: 0 is subtracted instead.
  const F32 reference = broadcast(max == kMasked ? 0.0f : max);
  F32 sums = {};
  if (site.halves) {
    // In place: a bf16 weight is written only where its float, or an earlier one, was already read.
    auto* const halves = reinterpret_cast<uint16_t*>(scores);
    for (int i = begin; i < end; i += kLanes) {
      sums += storeHalves(halves + i, exp(load(scores + i) - reference));
    }
  } else {
    for (int i = begin; i < end; i += kLanes) {
      const F32 weight = exp(load(scores + i) - reference);
      store(scores + i, weight);
      sums += weight;
    }
  }
  return {max, sum(sums)};
}

void mergeStates(const RowStates& into, const RowStates& part, int rows, int valueStride) {
  for (int row = 0; row < rows; ++row) {
    if (part.max(row) == kMasked) continue;
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

void finishRow(float* out, const RowStates& states, int row, int headDim, float valueScale) {
  const float sum = states.sum(row);
  const float scale = sum > 0 ? valueScale / sum : 0.0f;
  const float* values = states.values(row);
  for (int i = 0; i < headDim; ++i) out[i] = values[i] * scale;
}

}  // namespace perigee
