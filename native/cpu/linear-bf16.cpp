// bf16 GEMM tile kernel, sums in f32, two columns of K per step: vdpbf16ps with AVX-512 BF16 where
// the processor is not Intel's, else both columns widened to f32, rows when they are packed, and
// fused multiply-adds. Where many tiles use a panel, it is widened once and multiplied as f32
// (linear-f32.cpp): the same bits. Formula, shapes and tests: linear.cpp.
#include <utility>

#include "linear-kernel.h"

namespace perigee {

namespace {

template <typename Dot, int M>
void multiply(const uint32_t* x, const uint32_t* panel, int64_t columns, Prefetch next,
              float* sums) {
  multiplyTile<Dot, M>(x, panel, (columns + 1) / 2, next, sums);
}

template <typename Dot, int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiply<Dot, Rows + 1>...};
  return kernels[rows - 1];
}

using AllRows = std::make_integer_sequence<int, tileRows(Format::bf16)>;

}  // namespace

TileKernel tileKernelBf16(int rows) {
  return bf16Parts() == 2 ? choose<DotWidened>(rows, AllRows()) : choose<DotPairs>(rows, AllRows());
}

#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
/// linear.cpp, Versions, has what it gains. On Zen 4 pairs are twice as fast.
int bf16Parts() {
  static const int parts = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") ? 2 : 1;
  }();
  return parts;
}
#endif

void widenPanelBf16(const uint32_t* panel, int64_t columns, uint32_t* out) {
  for (int64_t step = 0; step < (columns + 1) / 2; ++step) {
    for (int v = 0; v < kPanelVectors; ++v) {
      const U32 pair = loadWords(panel + step * kPanelRows + v * kLanes);
      const U32 even = pair << 16, odd = pair & 0xffff0000u;
      std::memcpy(out + 2 * step * kPanelRows + v * kLanes, &even, sizeof even);
      std::memcpy(out + (2 * step + 1) * kPanelRows + v * kLanes, &odd, sizeof odd);
    }
  }
}

}  // namespace perigee
