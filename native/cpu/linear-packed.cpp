// q8 GEMM tile kernels that take the numbers of 2 to 8 bits out of a panel as they go: for the few
// rows of decoding, whose time is that of reading the weights. Formula, shapes and tests:
// linear.cpp.
#include <utility>

#include "packed-kernel.h"

namespace perigee {

namespace {

template <BlockType kType, int... Rows>
TileKernel choose(int rows, std::integer_sequence<int, Rows...>) {
  static constexpr TileKernel kernels[] = {multiplyBlocks<PackedSource<kType>, Rows + 1>...};
  return kernels[rows - 1];
}

}  // namespace

TileKernel packedKernel(BlockType type, int rows) {
  return withBlockType(type, [&](auto kType) {
    return choose<kType()>(rows, std::make_integer_sequence<int, kPackedRowsMax>());
  });
}

}  // namespace perigee
