// Token masks, logit biases and repetition penalties.
//
// Formula  logit = -inf for a token that is not allowed. Then for each entry y = logit + bias;
//          if the token occurred in prompt or output: y = y > 0 ? y / repetition : y * repetition
//          if it occurred in the output:              y = y - frequency * count - presence
// Shapes   logits, out [R, V]; allowed [R, ceil(V / 32)]; row r has entries entryStarts[r] to
//          entryStarts[r + 1] - 1
// Work     mask_logits: one thread per logit, launched only where `out` is not `logits` or rows may
//          be masked; adjust_entries: one block per row, one thread per entry (f64, rounded once)
// Bound    memory: 8 V bytes per row for mask_logits
// Checked  bench/gpu/smoke.mjs, adjustLogits
#include "numbers.h"
#include "params.h"

namespace perigee {

struct MaskLogitsParams {
  float* out;
  const float* logits;
  const uint32_t* allowed;  // null: no row is masked
  const int* allowedRows;
  int tokens;
};

PERIGEE_KERNEL perigee_mask_logits(const __grid_constant__ MaskLogitsParams p) {
  joinStream();
  const int64_t row = blockIdx.y;
  const int token = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (token >= p.tokens) return;
  const int64_t at = row * p.tokens + token;
  bool hidden = false;
  if (p.allowed != nullptr && p.allowedRows[row] != 0) {
    const int64_t words = (p.tokens + 31) / 32;
    hidden = ((p.allowed[row * words + token / 32] >> (token % 32)) & 1u) == 0;
  }
  p.out[at] = hidden ? -infinity() : p.logits[at];
}

struct AdjustEntriesParams {
  float* out;
  const int* entryStarts;
  const int* entryTokens;
  const float* entryBias;
  const int* entryCounts;
  const float* repetition;
  const float* frequency;
  const float* presence;
  int tokens;
};

PERIGEE_KERNEL perigee_adjust_entries(const __grid_constant__ AdjustEntriesParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const double repetition = p.repetition[row];
  const double frequency = p.frequency[row];
  const double presence = p.presence[row];
  float* const out = p.out + row * p.tokens;
  const int end = p.entryStarts[row + 1];
  for (int entry = p.entryStarts[row] + static_cast<int>(threadIdx.x); entry < end;
       entry += static_cast<int>(blockDim.x)) {
    const int count = p.entryCounts[entry];
    float& logit = out[p.entryTokens[entry]];
    double y = static_cast<double>(logit) + static_cast<double>(p.entryBias[entry]);
    if (count != 0) y = y > 0.0 ? y / repetition : y * repetition;
    if (count > 0) y = y - frequency * count - presence;
    logit = static_cast<float>(y);
  }
}

}  // namespace perigee
