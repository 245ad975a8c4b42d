// Token masks, logit biases and repetition penalties.
//
// Formula  logit = -inf for a token that is not allowed. Then for each entry y = logit + bias;
//          if the token occurred in prompt or output: y = y > 0 ? y / repetition : y * repetition
//          if it occurred in the output:              y = y - frequency * count - presence
// Shapes   logits, out [R, V]; allowed [R, ceil(V / 32)]; row r has entries entryStarts[r] to
//          entryStarts[r + 1] - 1
// Work     copy and mask: one task per slice of a row; entries: one task per row (f64, rounded
//          once)
// Bound    memory: 8 V bytes per row where `out` is not `logits` or a row is masked, else only
//          entries
// Checked  test/contracts/device-ops.ts, adjustLogits
#include <cstring>

#include "params.h"
#include "vocabulary.h"

namespace perigee {

struct AdjustLogitsParams {
  ThreadPool* pool;
  float* out;
  const float* logits;
  const int32_t* entryStarts;
  const int32_t* entryTokens;
  const float* entryBias;
  const int32_t* entryCounts;
  const float* repetition;
  const float* frequency;
  const float* presence;
  const uint32_t* allowed;     // null: no row is masked
  const int32_t* allowedRows;
  Int count, tokens;
};

namespace {

// `bits` points to the mask word of the first token, whose id is a multiple of 32.
void maskSpan(float* logits, const uint32_t* bits, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) {
    const uint32_t word = bits[i / 32];
    if (word == 0xffffffffu) continue;
    const int64_t end = std::min<int64_t>(count - i, 32);
    for (int64_t bit = 0; bit < end; ++bit) {
      if (((word >> bit) & 1) == 0) logits[i + bit] = kNoLogit;
    }
  }
}

void adjustEntries(const AdjustLogitsParams& p, int64_t row) {
  const double repetition = p.repetition[row];
  const double frequency = p.frequency[row];
  const double presence = p.presence[row];
  float* const out = p.out + row * p.tokens;
  for (int32_t entry = p.entryStarts[row]; entry < p.entryStarts[row + 1]; ++entry) {
    const int32_t count = p.entryCounts[entry];
    float& logit = out[p.entryTokens[entry]];
    double y = double{logit} + double{p.entryBias[entry]};
    if (count != 0) y = y > 0 ? y / repetition : y * repetition;
    if (count > 0) y = y - frequency * count - presence;
    logit = static_cast<float>(y);
  }
}

}  // namespace

PERIGEE_EXPORT void perigee_adjust_logits(const AdjustLogitsParams* params) {
  const AdjustLogitsParams& p = *params;
  const int64_t rows = p.count;
  const int64_t slices = slicesOf(p.tokens);
  const int64_t words = (p.tokens + 31) / 32;
  const bool copies = p.out != p.logits;
  const bool masks = p.allowed != nullptr;

  p.pool->parallelFor(copies || masks ? rows * slices : 0, [&](int64_t task, int) {
    const int64_t row = task / slices;
    const int64_t first = task % slices * kSliceTokens;
    const int64_t count = std::min<int64_t>(kSliceTokens, p.tokens - first);
    const int64_t start = row * p.tokens + first;
    if (copies) std::memcpy(p.out + start, p.logits + start, static_cast<size_t>(count) * 4);
    if (masks && p.allowedRows[row] != 0) {
      maskSpan(p.out + start, p.allowed + row * words + first / 32, count);
    }
  });
  const int64_t entries = p.entryStarts[rows] - p.entryStarts[0];
  p.pool->parallelFor(entries > 0 ? rows : 0, [&](int64_t row, int) { adjustEntries(p, row); });
}

}  // namespace perigee
