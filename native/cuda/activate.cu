// out = act(x), or with a gate act(gate) * up, rounded to the format that a linear reads.
//
// activate       x of f32, out of any format
// activate_bf16  both of bf16: half the bytes, behind products of many rows
//
// Shapes   x [T, F], gated [T, 2F]: gate, then up; out [T, F]
// Work     a block per row
// Bound    memory: 4 or 8 bytes read per output (of bf16 half as many), and the output
// Checked  bench/gpu/smoke.mjs, activate and linearActivate
#include "nonlinear.h"
#include "packed-rows.h"

namespace perigee {

struct ActivateParams {
  PackedRows out;
  const void* x;  // f32 or bf16, rows without padding
  Nonlinearity kind;
  int gated;
};

namespace {

constexpr int kChunk = 8;  // Elements of bf16 in 16 bytes.

union Chunk {
  uint4 words;
  Bf16 values[kChunk];
};

/// One row in chunks of 8: `columns` is a multiple of it.
__device__ void activateChunks(Bf16* out, const Bf16* x, int columns, const ActivateParams& p) {
  for (int i = threadIdx.x; i < columns / kChunk; i += blockDim.x) {
    Chunk gate, up, result;
    gate.words = reinterpret_cast<const uint4*>(x)[i];
    if (p.gated) up.words = reinterpret_cast<const uint4*>(x + columns)[i];
#pragma unroll
    for (int j = 0; j < kChunk; ++j) {
      const float activated = nonlinear(p.kind, widen(gate.values[j]));
      result.values[j] = narrowBf16(p.gated ? activated * widen(up.values[j]) : activated);
    }
    reinterpret_cast<uint4*>(out)[i] = result.words;
  }
}

}  // namespace

PERIGEE_KERNEL perigee_activate(const __grid_constant__ ActivateParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;
  const float* const gate = static_cast<const float*>(p.x) + row * (p.gated ? 2 : 1) * columns;
  if (p.gated) {
    p.out.store(row, [&](int i) { return nonlinear(p.kind, gate[i]) * gate[columns + i]; });
  } else {
    p.out.store(row, [&](int i) { return nonlinear(p.kind, gate[i]); });
  }
}

PERIGEE_KERNEL perigee_activate_bf16(const __grid_constant__ ActivateParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;
  const Bf16* const gate = static_cast<const Bf16*>(p.x) + row * (p.gated ? 2 : 1) * columns;
  if (columns % kChunk == 0) {
    activateChunks(reinterpret_cast<Bf16*>(p.out.row(row)), gate, columns, p);
    return;
  }
  // Rows of x begin anywhere.
  p.out.store(row, [&](int i) {
    const float activated = nonlinear(p.kind, widen(gate[i]));
    return p.gated ? activated * widen(gate[columns + i]) : activated;
  });
}

}  // namespace perigee
