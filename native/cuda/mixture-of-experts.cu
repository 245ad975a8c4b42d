// Mixture of experts:
// out[t] = sum over the chosen experts e of r[t, e] * down_e(act(gate_e x[t]) * up_e x[t]), where r
// are the routing weights.
//
// T tokens · X experts · A chosen per token · E embedding · F feed-forward size of an expert
//
//    router logits -> choose_experts -> group_experts -> multiply (gate, up) -> activate
//                     top A per token   pairs (t, e)      [T * A, 2F]           [T * A, F]
//                                       sorted by e                                 |
//                                    out [T, E] <- sum_experts <- multiply (down) <-+
//
// Shapes   x [T, E] activation · routerLogits [T, X] f32 · gateUp X x [2F, E] · down X x [E, F];
//          out [T, E] f32
// Work     choose_experts    one warp per token
//          group_experts     one block sorts the T * A choices by expert
//          multiply_experts  f32 and i8: one block per expert and outputs, over the expert's rows,
//                            eight at a time; once for gate and up, once for down, with activate.cu
//                            between them. bf16 uses multiply-experts.cu instead
//          sum_experts       one block per token
// Bound    few tokens, memory: the chosen experts' weights, read once. Many tokens, compute: the
//          multiply units
// Checked  bench/gpu/smoke.mjs, mixtureOfExperts
// Source   N. Shazeer et al. 2017, "Outrageously large neural networks".
#include "linear-rows.h"

namespace perigee {

namespace {

constexpr int kExpertsMax = 1024;

}  // namespace

struct ChooseExpertsParams {
  const float* logits;    // [T, X]
  int* experts;           // [T, A], best first
  float* routingWeights;  // [T, A]
  int count;
  int expertCount;  // X
  int chosen;       // A
  int normalize;
};

PERIGEE_KERNEL perigee_choose_experts(const __grid_constant__ ChooseExpertsParams p) {
  joinStream();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t token = blockIdx.x;
  const float* const logits = p.logits + token * p.expertCount;
  int* const experts = p.experts + token * p.chosen;
  float* const routingWeights = p.routingWeights + token * p.chosen;

  // 1. Top A by repeated argmax, ties by rising expert id: each round takes the best after the
  // previous one.
  float previous = 0.0f;
  int previousExpert = -1;
  float largest = 0.0f;
  for (int rank = 0; rank < p.chosen; ++rank) {
    float best = 0.0f;
    int bestExpert = -1;
    for (int expert = lane; expert < p.expertCount; expert += kWarp) {
      const float logit = logits[expert];
      const bool behind = rank == 0 || logit < previous ||
                          (logit == previous && expert > previousExpert);
      if (behind && (bestExpert < 0 || logit > best)) {
        best = logit;
        bestExpert = expert;
      }
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, step);
      const int otherExpert = __shfl_xor_sync(0xffffffffu, bestExpert, step);
      const bool better = otherExpert >= 0 && (bestExpert < 0 || other > best ||
                                               (other == best && otherExpert < bestExpert));
      best = better ? other : best;
      bestExpert = better ? otherExpert : bestExpert;
    }
    // All remaining logits are NaN: any expert will do, since the result is NaN.
    previousExpert = max(bestExpert, 0);
    previous = logits[previousExpert];
    if (rank == 0) largest = previous;
    if (lane == 0) experts[rank] = previousExpert;
  }
  __syncwarp();

  // 2. Their routing weights: softmax over all experts, or over the chosen ones.
  float total = 0.0f;
  float kept = 0.0f;
  for (int expert = lane; expert < p.expertCount; expert += kWarp) {
    total += expf(logits[expert] - largest);
  }
  for (int step = kWarp / 2; step > 0; step /= 2) {
    total += __shfl_xor_sync(0xffffffffu, total, step);
  }
  for (int rank = 0; rank < p.chosen; ++rank) kept += expf(logits[experts[rank]] - largest);
  const float whole = p.normalize ? kept : total;
  for (int rank = lane; rank < p.chosen; rank += kWarp) {
    routingWeights[rank] = expf(logits[experts[rank]] - largest) / whole;
  }
}

struct GroupExpertsParams {
  const int* experts;  // [T * A] chosen experts
  int* starts;         // [X + 1] first pair of each expert
  int* pairs;          // [T * A] index of each choice among the sorted pairs
  int* tokens;         // [T * A] token of each pair
  int choices;         // T * A
  int expertCount;
  int chosen;
};

PERIGEE_KERNEL perigee_group_experts(const __grid_constant__ GroupExpertsParams p) {
  joinStream();
  __shared__ int next[kExpertsMax + 1];
  for (int i = threadIdx.x; i <= p.expertCount; i += blockDim.x) next[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < p.choices; i += blockDim.x) atomicAdd(&next[p.experts[i] + 1], 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int expert = 0; expert < p.expertCount; ++expert) next[expert + 1] += next[expert];
  }
  __syncthreads();
  for (int i = threadIdx.x; i <= p.expertCount; i += blockDim.x) p.starts[i] = next[i];
  __syncthreads();

  // The order of pairs inside an expert is not deterministic. Every pair is computed independently,
  // and a token's pairs are added by rank, so no result depends on it.
  for (int i = threadIdx.x; i < p.choices; i += blockDim.x) {
    const int pair = atomicAdd(&next[p.experts[i]], 1);
    p.pairs[i] = pair;
    p.tokens[pair] = i / p.chosen;
  }
}

struct MultiplyExpertsParams {
  PackedRows x;
  PackedRows weight;             // of one expert; its memory field is unused
  uint8_t* const* matrices;      // [X] addresses
  float* out;                    // [T * A, outputs]
  const int* starts;             // [X + 1]
  const int* tokens;             // [T * A] row of x for each pair; null: row = pair
  int outputs;
};

// One resident block per SM: with registers limited for two, they spill.
PERIGEE_KERNEL __launch_bounds__(kLinearWarps * kWarp, 1)
perigee_multiply_experts(const __grid_constant__ MultiplyExpertsParams p) {
  joinStream();
  const int expert = blockIdx.y;
  const int start = p.starts[expert];
  const int end = p.starts[expert + 1];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int output = (static_cast<int>(blockIdx.x) * kLinearWarps + warp) * kWarpOutputs;
  if (start == end || output >= p.outputs) return;
  const PackedRows weight = {p.matrices[expert], p.weight.format, p.weight.columns};

  withChunks(weight, [&](auto chunks) {
    for (int first = start; first < end; first += kLinearRows) {
      linearTile<decltype(chunks)>(
          weight, output, p.outputs, min(kLinearRows, end - first),
          [&](int r) { return p.x.row(p.tokens == nullptr ? first + r : p.tokens[first + r]); },
          [&](int r, int n, float sum) {
            p.out[static_cast<int64_t>(first + r) * p.outputs + n] = sum;
          });
    }
  });
}

struct SumExpertsParams {
  float* out;                   // [T, E]
  const float* products;        // [T * A, E]
  const float* routingWeights;  // [T, A]
  const int* pairs;             // [T, A]
  int columns;
  int chosen;
  int accumulate;
};

PERIGEE_KERNEL perigee_sum_experts(const __grid_constant__ SumExpertsParams p) {
  joinStream();
  const int64_t token = blockIdx.x;
  float* const out = p.out + token * p.columns;
  for (int i = threadIdx.x; i < p.columns; i += blockDim.x) {
    float total = 0.0f;
    for (int64_t rank = token * p.chosen; rank < (token + 1) * p.chosen; ++rank) {
      const float product = p.products[static_cast<int64_t>(p.pairs[rank]) * p.columns + i];
      total = fmaf(product, p.routingWeights[rank], total);
    }
    out[i] = p.accumulate ? out[i] + total : total;
  }
}

}  // namespace perigee
