// Joins rows of two tensors: what a drafter's layers read beside each other.
//
// Formula  out[r] = left[r / leftRepeat], then y or act(y) for y = right[rightIndices[r]]
// Shapes   out [R, A + B]; left [at least R / leftRepeat, A]; right [*, B]; rightIndices [R]
// Work     one block per row
// Bound    memory: 4 bytes read and 4 written per element
// Checked  test/contracts/device-ops/drafter.ts, joinRows
#include "nonlinear.h"

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
  for (int i = threadIdx.x; i < p.leftColumns; i += blockDim.x) out[i] = left[i];
  for (int i = threadIdx.x; i < p.rightColumns; i += blockDim.x) {
    const bool isPlain = p.rightKind < 0;
    const float value = right[i];
    const auto kind = static_cast<Nonlinearity>(p.rightKind);
    out[p.leftColumns + i] = isPlain ? value : nonlinear(kind, value);
  }
}

}  // namespace perigee
