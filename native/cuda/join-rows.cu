// Joins rows of two tensors: what a drafter's layers read beside each other.
//
// Formula  out[r] = left[r / leftRepeat], then y or act(y) for y = right[rightIndices[r]]
// Shapes   out [R, A + B]; left [at least R / leftRepeat, A]; right [*, B]; rightIndices [R]
// Work     one block per kRowPart columns of a row; each thread's loads are in flight together
// Bound    memory: 4 bytes read and 4 written per element
// Checked  test/contracts/device-ops/drafter.ts, joinRows
#include "nonlinear.h"
#include "packed-rows.h"

namespace perigee {

struct JoinRowsParams {
  float* out;
  const float* left;
  const float* right;
  const int* rightIndices;  // null: row r
  int leftColumns;          // A
  int rightColumns;         // B
  int leftRepeat;
  int rightKind;  // of Nonlinearity; negative: none
};

PERIGEE_KERNEL perigee_join_rows(const __grid_constant__ JoinRowsParams p) {
  joinStream();
  const int64_t row = blockIdx.x;
  const int64_t taken = p.rightIndices == nullptr ? row : p.rightIndices[row];
  const float* const left = p.left + row / p.leftRepeat * p.leftColumns;
  const float* const right = p.right + taken * p.rightColumns;
  float* const out = p.out + row * (p.leftColumns + p.rightColumns);
  const int columns = p.leftColumns + p.rightColumns;
  constexpr int kPerThread = kRowPart / kRowThreads;
  float values[kPerThread];
  const int first = static_cast<int>(blockIdx.y) * kRowPart + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int column = first + i * kRowThreads;
    if (column >= columns) continue;
    values[i] = column < p.leftColumns ? left[column] : right[column - p.leftColumns];
  }
  const auto kind = static_cast<Nonlinearity>(p.rightKind);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int column = first + i * kRowThreads;
    if (column >= columns) continue;
    const bool isPlain = column < p.leftColumns || p.rightKind < 0;
    out[column] = isPlain ? values[i] : nonlinear(kind, values[i]);
  }
}

}  // namespace perigee
