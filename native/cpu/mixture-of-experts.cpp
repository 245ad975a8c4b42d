// Mixture of experts:
// out[t] = sum over the chosen experts e of r[t, e] * down_e(act(gate_e x[t]) * up_e x[t]), where r
// are the routing weights.
//
// T tokens · X experts · A chosen per token · E embedding · F feed-forward size of an expert
//
//    x [T, E] -> top A -> sort pairs by expert -> gateUp -> act * up -> down -> weighted sum
//                router   e0: t0 t3               [pairs,   [pairs,     [pairs,   out [T, E]
//                logits   e1: t1 t0 t2             2F]       F]          E]
//
// Shapes  x [T, E] activation · routerLogits [T, X] f32 · gateUp X x [2F, E] · down X x [E, F]; out
//         [T, E] f32
// Work    Phases: routing (one task per token), gate and up (GEMM tasks of all experts together),
//         activation (rows), down, sum (tokens). The rows of an expert are adjacent, so that its
//         weights are read once.
// Bound   few tokens, memory: the chosen experts' weights. Many tokens, compute: the multiply units
// Checked test/devices/cpu/linear-experts.test.ts, bitwise independent of the batch
// Source  N. Shazeer et al. 2017, "Outrageously large neural networks".
#include <algorithm>

#include "linear-job.h"
#include "nonlinear.h"
#include "rows.h"

namespace perigee {

namespace {

struct MixtureParams {
  ThreadPool* pool;
  float* out;
  const uint8_t* x;
  const float* routerLogits;
  Int format;
  Int count;
  Int columns;          // E
  Int hiddenColumns;    // F
  Int experts;          // X
  Int expertsPerToken;  // A
  Int normalize;
  Int kind;
  Int accumulate;
  const uint32_t* matrices[];  // X gate-up, then X down
};

/// Buffers of one call, allocated in the pool's scratch.
struct Workspace {
  float* hidden;          // [T * A, 2F] gate and up of each (token, expert) pair, sorted by expert
  float* products;        // [T * A, E] output of down
  uint8_t* activated;     // [T * A] activation rows of F
  LinearJob* jobs;        // [X], or more for q8 matrices of several segments
  int32_t* starts;        // [X + 1] first pair of each expert
  int32_t* experts;       // [T, A] chosen experts, best first
  float* routingWeights;  // [T, A]
  int32_t* pairs;         // [T, A] index of each choice among the sorted pairs
  int32_t* tokens;        // [T * A] token of each pair
};

/// Bump allocator, 64-byte aligned. With null memory it only computes the total size.
class BumpAllocator {
 public:
  explicit BumpAllocator(uint8_t* memory) : memory_(memory) {}

  template <typename T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(memory_ + used_);
    used_ += padTo(count * static_cast<int64_t>(sizeof(T)), 64);
    return taken;
  }

  int64_t used() const { return used_; }

 private:
  uint8_t* memory_;
  int64_t used_ = 0;
};

int64_t jobsMax(const MixtureParams& p) {
  return p.experts * (formatOf(p.format) == Format::q8 ? kSegmentsMax : 1);
}

Workspace allocateWorkspace(const MixtureParams& p, BumpAllocator& allocator) {
  const int64_t pairs = p.count * p.expertsPerToken;
  const int64_t rowBytes = ActivationLayout{formatOf(p.format), p.hiddenColumns}.rowBytes();
  Workspace space;
  space.hidden = allocator.take<float>(pairs * 2 * p.hiddenColumns);
  space.products = allocator.take<float>(pairs * p.columns);
  space.activated = allocator.take<uint8_t>(pairs * rowBytes);
  space.jobs = allocator.take<LinearJob>(jobsMax(p));
  space.starts = allocator.take<int32_t>(p.experts + 1);
  space.experts = allocator.take<int32_t>(pairs);
  space.routingWeights = allocator.take<float>(pairs);
  space.pairs = allocator.take<int32_t>(pairs);
  space.tokens = allocator.take<int32_t>(pairs);
  return space;
}

/// Router: the A largest logits, ties by rising expert id. Routing weights are the softmax over all
/// experts, or over the chosen ones with `normalize`.
void choose(const MixtureParams& p, int64_t token, int32_t* experts, float* routingWeights) {
  const int64_t count = p.experts, chosen = p.expertsPerToken;
  const float* const logits = p.routerLogits + token * count;
  for (int64_t rank = 0; rank < chosen; ++rank) {
    int64_t best = -1;
    for (int64_t expert = 0; expert < count; ++expert) {
      const bool taken = std::find(experts, experts + rank, expert) != experts + rank;
      if (!taken && (best < 0 || logits[expert] > logits[best])) best = expert;
    }
    experts[rank] = static_cast<int32_t>(best);
  }

  F32 sums = {};
  const float largest = logits[experts[0]];
  forLanes(count, [&](int64_t i, int lanes) {
    F32 weights = exp(loadLanes(logits + i, lanes) - largest);
    for (int lane = lanes; lane < kLanes; ++lane) weights[lane] = 0.0f;
    sums += weights;
  });
  float total = sum(sums), kept = 0.0f;
  for (int64_t rank = 0; rank < chosen; ++rank) {
    routingWeights[rank] = exp(logits[experts[rank]] - largest);
    kept += routingWeights[rank];
  }
  if (p.normalize) total = kept;
  for (int64_t rank = 0; rank < chosen; ++rank) routingWeights[rank] /= total;
}

/// Counting sort of the choices by expert; inside an expert tokens rise.
void group(const MixtureParams& p, const Workspace& space) {
  const int64_t choices = p.count * p.expertsPerToken;
  std::fill_n(space.starts, p.experts + 1, 0);
  for (int64_t i = 0; i < choices; ++i) ++space.starts[space.experts[i] + 1];
  for (int64_t expert = 0; expert < p.experts; ++expert) {
    space.starts[expert + 1] += space.starts[expert];
  }
  for (int64_t i = 0; i < choices; ++i) {
    const int32_t pair = space.starts[space.experts[i]]++;
    space.pairs[i] = pair;
    space.tokens[pair] = static_cast<int32_t>(i / p.expertsPerToken);
  }

  // Each start has advanced to the end of its expert, which is the start of the next one.
  std::copy_backward(space.starts, space.starts + p.experts, space.starts + p.experts + 1);
  space.starts[0] = 0;
}

/// hidden = gateUp x, for all pairs.
void multiplyGateUp(const MixtureParams& p, const Workspace& space) {
  LinearJob* end = space.jobs;
  const int64_t hidden = 2 * p.hiddenColumns;
  for (int64_t expert = 0; expert < p.experts; ++expert) {
    const int64_t start = space.starts[expert], count = space.starts[expert + 1] - start;
    if (count == 0) continue;
    const MatrixLayout layout{formatOf(p.format), hidden, p.columns};
    end = appendJobs(end, {layout,
                           p.matrices[expert],
                           p.x,
                           space.tokens + start,
                           count,
                           space.hidden + start * hidden,
                           nullptr,
                           false,
                           hidden});
  }
  runLinearJobs(*p.pool, space.jobs, end - space.jobs);
}

/// activated = act(gate) * up, in the weights' activation format.
void activatePairs(const MixtureParams& p, const Workspace& space) {
  const int64_t columns = p.hiddenColumns;
  const ActivationWriter writer(space.activated, formatOf(p.format), columns);
  withNonlinearity(static_cast<Nonlinearity>(int64_t{p.kind}), [&](auto kind) {
    parallelRows(*p.pool, p.count * p.expertsPerToken, columns * 2, [&](int64_t row, int thread) {
      const float* const gate = space.hidden + row * 2 * columns;
      float* const out = writer.begin(row, p.pool->scratch<float>(columns, thread));
      forLanes(columns, [&](int64_t i, int lanes) {
        const F32 up = loadLanes(gate + columns + i, lanes);
        storeLanes(out + i, nonlinear<kind()>(loadLanes(gate + i, lanes)) * up, lanes);
      });
      writer.finish(row, out);
    });
  });
}

/// products = down activated, for all pairs.
void multiplyDown(const MixtureParams& p, const Workspace& space) {
  LinearJob* end = space.jobs;
  const int64_t rowBytes = ActivationLayout{formatOf(p.format), p.hiddenColumns}.rowBytes();
  for (int64_t expert = 0; expert < p.experts; ++expert) {
    const int64_t start = space.starts[expert], count = space.starts[expert + 1] - start;
    if (count == 0) continue;
    const MatrixLayout layout{formatOf(p.format), p.columns, p.hiddenColumns};
    end = appendJobs(end, {layout,
                           p.matrices[p.experts + expert],
                           space.activated + start * rowBytes,
                           nullptr,
                           count,
                           space.products + start * p.columns,
                           nullptr,
                           false,
                           p.columns});
  }
  runLinearJobs(*p.pool, space.jobs, end - space.jobs);
}

/// out[t] = sum of the token's products times their routing weights, best expert first.
void sumProducts(const MixtureParams& p, const Workspace& space, int64_t token) {
  const int64_t columns = p.columns, chosen = p.expertsPerToken;
  float* const out = p.out + token * columns;
  forLanes(columns, [&](int64_t i, int lanes) {
    F32 total = {};
    for (int64_t rank = token * chosen; rank < (token + 1) * chosen; ++rank) {
      const float* const product = space.products + space.pairs[rank] * columns;
      total = fma(loadLanes(product + i, lanes), broadcast(space.routingWeights[rank]), total);
    }
    if (p.accumulate) total += loadLanes(out + i, lanes);
    storeLanes(out + i, total, lanes);
  });
}

}  // namespace

PERIGEE_EXPORT void perigee_mixture_of_experts(const MixtureParams* params) {
  const MixtureParams& p = *params;
  if (p.count == 0) return;
  BumpAllocator sizes(nullptr);
  allocateWorkspace(p, sizes);
  BumpAllocator allocator(p.pool->scratch<uint8_t>(sizes.used()));
  const Workspace space = allocateWorkspace(p, allocator);

  const int64_t chosen = p.expertsPerToken;
  parallelRows(*p.pool, p.count, p.experts * chosen, [&](int64_t token, int) {
    choose(p, token, space.experts + token * chosen, space.routingWeights + token * chosen);
  });
  group(p, space);
  multiplyGateUp(p, space);
  activatePairs(p, space);
  multiplyDown(p, space);
  parallelRows(*p.pool, p.count, p.columns * chosen,
               [&](int64_t token, int) { sumProducts(p, space, token); });
}

}  // namespace perigee
