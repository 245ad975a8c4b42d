#include "vocabulary.h"

namespace perigee {
namespace {

float maxOf(const float* values, int64_t count) {
  F32 largest = broadcast(kNoLogit);
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) largest = max(load(values + i), largest);
  float result = maxLane(largest);
  for (int64_t i = whole; i < count; ++i) result = values[i] > result ? values[i] : result;
  return result;
}

}  // namespace

int32_t VocabularyRow::firstOf(float largest) const {
  int32_t found = -1;
  for (int64_t chunk = 0; chunk < chunksOf(tokens) && found < 0; ++chunk) {
    if (chunkMax[chunk] != largest) continue;
    for (int64_t token = chunk * kChunkTokens; token < chunkEnd(chunk) && found < 0; ++token) {
      if (logits[token] == largest) found = static_cast<int32_t>(token);
    }
  }
  return std::max(found, 0);
}

float VocabularyRow::kthLargest(int64_t k, float* scratch) const {
  // At least k logits are not below the k-th largest of the chunk maxima.
  const int64_t chunks = chunksOf(tokens);
  float least = kNoLogit;
  if (k <= chunks) {
    std::copy_n(chunkMax, chunks, scratch);
    std::nth_element(scratch, scratch + (k - 1), scratch + chunks, std::greater<float>());
    least = scratch[k - 1];
  }
  float* end = scratch;
  forAtLeast(least, [&](int32_t token) { *end++ = logits[token]; });
  if (end - scratch < k) return kNoLogit;
  std::nth_element(scratch, scratch + (k - 1), end, std::greater<float>());
  return scratch[k - 1];
}

VocabularyRows::VocabularyRows(ThreadPool& pool, const float* logits, int64_t rows, int64_t tokens,
                               int64_t extraBytes)
    : logits_(logits), tokens_(tokens) {
  const int64_t chunks = chunksOf(tokens);
  const int64_t maximaBytes = (rows * chunks * 4 + 63) / 64 * 64;
  auto* const memory = pool.scratch<uint8_t>(maximaBytes + extraBytes);
  chunkMax_ = reinterpret_cast<float*>(memory);
  extra_ = memory + maximaBytes;

  const int64_t slices = slicesOf(tokens);
  const int64_t chunksPerSlice = kSliceTokens / kChunkTokens;
  pool.parallelFor(rows * slices, [&](int64_t task, int) {
    const VocabularyRow of = row(task / slices);
    float* const maxima = chunkMax_ + task / slices * chunks;
    const int64_t first = task % slices * chunksPerSlice;
    for (int64_t chunk = first; chunk < std::min(first + chunksPerSlice, chunks); ++chunk) {
      const int64_t begin = chunk * kChunkTokens;
      maxima[chunk] = maxOf(of.logits + begin, of.chunkEnd(chunk) - begin);
    }
  });
}

}  // namespace perigee
