// Activation functions: out = act(x), or gated: act(gate) * up, in the format that a linear op
// reads.
//
// activate       x f32, out in any format
// activate_bf16  x and out bf16, half the bytes; used after GEMMs of many rows
//
// Shapes   x [T, F], gated [T, 2F]: gate, then up; out [T, F]
// Work     activate: one block per row. activate_bf16: all outputs as a list of 16-byte chunks,
//          kThreadChunks per thread, whose loads are in flight together; one block per row where
//          rows are not whole chunks
// Bound    memory: 4 or 8 bytes read per output (half of that in bf16), and the output
// Checked  bench/gpu/smoke.mjs, activate and linearActivate; activate_bf16 emulated in
//          test/devices/cuda/linear-stream.test.ts, within bf16's rounding of exact functions
#include "nonlinear.h"
#include "packed-rows.h"

namespace perigee {

struct ActivateParams {
  PackedRows out;
  const void* x;  // f32 or bf16, rows without padding
  Nonlinearity kind;
  int gated;
  int rows;
};

namespace {

constexpr int kChunk = 8;  // bf16 elements in 16 bytes
constexpr int kThreadChunks = 2;

union Chunk {
  uint4 words;
  Bf16 values[kChunk];
};

/// `nonlinear` by approximate instructions: off by a few units in the last place of f32, while bf16
/// has 16 bits less.
template <Nonlinearity kKind>
__device__ __forceinline__ float nonlinearFast(float x) {
  if constexpr (kKind == Nonlinearity::silu) return __fdividef(x, 1.0f + __expf(-x));
  if constexpr (kKind == Nonlinearity::geluTanh) {
    const float inner = x * fmaf(x * x, 0.044715f, 1.0f);
    return __fdividef(x, 1.0f + __expf(inner * -1.5957691216057308f));
  }
  return nonlinear(kKind, x);
}

template <Nonlinearity kKind>
__device__ __forceinline__ uint4 activated(const Chunk& gate, const Chunk& up, bool gated) {
  Chunk result;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    const float value = nonlinearFast<kKind>(widen(gate.values[i]));
    result.values[i] = narrowBf16(gated ? value * widen(up.values[i]) : value);
  }
  return result.words;
}

/// All rows, in chunks of 8 outputs; `columns` is a multiple of 8.
template <Nonlinearity kKind>
__device__ __forceinline__ void activateChunks(const ActivateParams& p) {
  const uint32_t perRow = static_cast<uint32_t>(p.out.columns / kChunk);
  const uint32_t end = perRow * static_cast<uint32_t>(p.rows);
  const uint32_t first = blockIdx.x * blockDim.x * kThreadChunks + threadIdx.x;
  const bool gated = p.gated != 0;
  const uint4* const x = static_cast<const uint4*>(p.x);
  Chunk gate[kThreadChunks], up[kThreadChunks];
#pragma unroll
  for (int i = 0; i < kThreadChunks; ++i) {
    const uint32_t at = first + static_cast<uint32_t>(i) * blockDim.x;
    if (at >= end) continue;
    // The gates of a row follow the gates and ups of all earlier rows, hence the extra offset.
    const uint4* const from = x + at + (gated ? at / perRow * perRow : 0);
    gate[i].words = from[0];
    up[i].words = from[gated ? perRow : 0];
  }
#pragma unroll
  for (int i = 0; i < kThreadChunks; ++i) {
    const uint32_t at = first + static_cast<uint32_t>(i) * blockDim.x;
    if (at >= end) continue;
    reinterpret_cast<uint4*>(p.out.memory)[at] = activated<kKind>(gate[i], up[i], gated);
  }
}

/// Row blockIdx.x, for rows that may begin at any element.
__device__ __forceinline__ void activateRow(const ActivateParams& p) {
  const int64_t row = blockIdx.x;
  const int columns = p.out.columns;
  const Bf16* const gate = static_cast<const Bf16*>(p.x) + row * (p.gated ? 2 : 1) * columns;
  p.out.store(row, [&](int i) {
    const float value = nonlinear(p.kind, widen(gate[i]));
    return p.gated ? value * widen(gate[columns + i]) : value;
  });
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
  if (p.out.columns % kChunk != 0) {
    activateRow(p);
    return;
  }
  switch (p.kind) {
    case Nonlinearity::silu: activateChunks<Nonlinearity::silu>(p); break;
    case Nonlinearity::gelu: activateChunks<Nonlinearity::gelu>(p); break;
    case Nonlinearity::geluTanh: activateChunks<Nonlinearity::geluTanh>(p); break;
    case Nonlinearity::relu: activateChunks<Nonlinearity::relu>(p); break;
    case Nonlinearity::tanh: activateChunks<Nonlinearity::tanh>(p);
  }
}

}  // namespace perigee
