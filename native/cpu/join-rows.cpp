// Joins rows of two tensors: what a drafter's layers read beside each other.
//
// Formula  out[r] = left[r / leftRepeat], then y or act(y) for y = right[rightIndices[r]]
// Shapes   out [R, A + B]; left [at least R / leftRepeat, A]; right [*, B]; rightIndices [R]
// Work     tasks of consecutive rows
// Bound    memory: 4 bytes read and written per element
// Checked  test/contracts/device-ops/drafter.ts, joinRows
#include <cstring>

#include "nonlinear.h"
#include "params.h"
#include "rows.h"
#include "thread-pool.h"

namespace perigee {

struct JoinRowsParams {
  ThreadPool* pool;
  float* out;
  const float* left;
  const float* right;
  const int32_t* rightIndices;  // null: row r
  Int count;
  Int leftColumns, rightColumns;  // A, B
  Int leftRepeat;
  Int rightKind;  // negative: none
};

namespace {

void copyFloats(float* to, const float* from, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// Joins all rows; the right part is made by writeRight(to, from, count).
template <typename WriteRight>
void joinAll(const JoinRowsParams& p, const WriteRight& writeRight) {
  const int64_t left = p.leftColumns, right = p.rightColumns, repeat = p.leftRepeat;
  parallelRows(*p.pool, p.count, left + right, [&](int64_t row, int) {
    const int64_t taken = p.rightIndices == nullptr ? row : p.rightIndices[row];
    float* const out = p.out + row * (left + right);
    copyFloats(out, p.left + row / repeat * left, left);
    writeRight(out + left, p.right + taken * right, right);
  });
}

}  // namespace

PERIGEE_EXPORT void perigee_join_rows(const JoinRowsParams* params) {
  const JoinRowsParams& p = *params;
  if (p.rightKind < 0) {
    joinAll(p, copyFloats);
    return;
  }
  withNonlinearity(static_cast<Nonlinearity>(int64_t{p.rightKind}), [&](auto kind) {
    joinAll(p, [&](float* to, const float* from, int64_t count) {
      forLanes(count, [&](int64_t i, int lanes) {
        storeLanes(to + i, nonlinear<kind()>(loadLanes(from + i, lanes)), lanes);
      });
    });
  });
}

}  // namespace perigee
