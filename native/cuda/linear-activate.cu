// Fused linear + activation for up to 16 rows of bf16, the first half of a feed-forward network in
// a decode step: out = act(x W^T + bias), or with a gate act(gate) * up.
//
// Formula  product[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n];
//          out[t, f] = act(product[t, f]), gated: act(product[t, f]) * product[t, F + f]
// Shapes   x [T, K] and weight [F or 2F, K] bf16, bias [F or 2F] f32, out [T, F] bf16; T <= 8 or 16
// Work     linear-stream.h; with a gate a unit holds rows of gate and the same rows of up
// Bound    memory: 2 * F * K bytes, gated twice that. The product is not written to memory
// Checked  bench/gpu/smoke.mjs, linearActivate; test/devices/cuda/linear-stream.test.ts
#include "linear-stream.h"
#include "nonlinear.h"

namespace perigee {

struct LinearActivateParams {
  StreamMaps maps;
  StreamBoxes boxes;
  StreamRows rows;
  PackedRows out;
  const float* bias;  // null: none
  int count;          // T
  int columns;        // K
  Nonlinearity kind;
  int gated;
};

namespace {

struct LinearActivateJob {
  const LinearActivateParams& p;
  int count;
  int size;  // F

  __device__ explicit LinearActivateJob(const LinearActivateParams& params)
      : p(params), count(params.count), size(params.out.columns) {}

  __device__ StreamSource source() const {
    return {(size + kBoxRows - 1) / kBoxRows, p.columns, p.gated ? 2 : 1, p.boxes, p.rows};
  }

  __device__ void finish(int unit, int units, const PassSums& sums) const {
    const int padded = static_cast<int>(packedRowBytes(Format::bf16, size)) / 2;
    const int width = units * kBoxRows;
    for (int i = threadIdx.x; i < count * width; i += kStreamThreads) {
      const int row = i / width;
      const int column = unit * kBoxRows + i % width;
      if (column >= padded) continue;
      // Rows are padded with zeros.
      const float value = column < size ? valueAt(sums, row, column, i % width) : 0.0f;
      reinterpret_cast<Bf16*>(p.out.row(row))[column] = narrowBf16(value);
    }
  }

 private:
  __device__ float valueAt(const PassSums& sums, int row, int column, int place) const {
    const float gate = sums.at(row, place) + (p.bias == nullptr ? 0.0f : p.bias[column]);
    const float activated = nonlinear(p.kind, gate);
    if (!p.gated) return activated;
    const float bias = p.bias == nullptr ? 0.0f : p.bias[size + column];
    return activated * (sums.at(row, kBoxRows + place) + bias);
  }
};

}  // namespace

PERIGEE_KERNEL __launch_bounds__(kStreamBlockThreads, 1)
perigee_linear_activate_8(const __grid_constant__ LinearActivateParams p) {
  streamWeights<1>(LinearActivateJob(p), p.maps);
}

PERIGEE_KERNEL __launch_bounds__(kStreamBlockThreads, 1)
perigee_linear_activate_16(const __grid_constant__ LinearActivateParams p) {
  streamWeights<2>(LinearActivateJob(p), p.maps);
}

}  // namespace perigee
