// f32 GEMM tile kernel: one fused multiply-add per column. Formula, shapes and tests: linear.cpp.
#include <utility>

#include "linear-kernel.h"

namespace perigee {

namespace {

template <int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* sums) {
  multiplyTile<DotF32, M>(x, panel, columns, next, sums);
}

template <int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiply<Rows + 1>...};
  return kernels[rows - 1];
}

}  // namespace

TileKernel tileKernelF32(int rows) {
  return choose(rows, std::make_integer_sequence<int, tileRows(Format::f32)>());
}

}  // namespace perigee
