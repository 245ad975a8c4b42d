// bf16 GEMM tile kernel, sums in f32, two columns of K per step: vdpbf16ps with AVX-512 BF16, else
// both halves widened to f32 and fused multiply-adds. Formula, shapes and tests: linear.cpp.
#include <utility>

#include "linear-kernel.h"

namespace perigee {

namespace {

template <int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* sums) {
  multiplyTile<DotBf16, M>(x, panel, (columns + 1) / 2, next, sums);
}

template <int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiply<Rows + 1>...};
  return kernels[rows - 1];
}

}  // namespace

TileKernel tileKernelBf16(int rows) {
  return choose(rows, std::make_integer_sequence<int, tileRows(Format::bf16)>());
}

}  // namespace perigee
