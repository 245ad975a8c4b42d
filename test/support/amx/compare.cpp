// Compares the q8 kernels of the matrix unit, whose instructions tiles.h stands in for, with those
// of vector instructions: all types of blocks, 7 to 16 rows, whole and odd numbers of groups.
// Prints the types that differ; the exit code says whether there are any.
//
//   g++ FLAGS -include tiles.h compare.cpp linear-amx-q8.cpp linear-expanded.cpp
#include <cstdio>
#include <random>
#include <vector>

#include "expanded-panel.h"
#include "linear-amx.h"
#include "packed-kernel.h"

namespace perigee {

// Of linear-amx.cpp.
void useTiles(const TileShapes& shapes) { _tile_loadconfig(&shapes); }

namespace {

/// Bytes whose half-precision scales are small finite numbers, whatever they are read as.
void fillPanel(uint8_t* panel, int64_t bytes, std::mt19937& random) {
  for (int64_t i = 0; i < bytes; ++i) panel[i] = static_cast<uint8_t>(random() % 0x38);
}

/// Activation rows of `columns` columns, as ActivationWriter writes them.
std::vector<uint8_t> randomRows(const ActivationLayout& layout, int count, std::mt19937& random) {
  std::vector<uint8_t> rows(static_cast<size_t>(layout.rowBytes() * count));
  std::vector<float> values(static_cast<size_t>(layout.columns));
  const ActivationWriter writer(rows.data(), layout.format, layout.columns);
  for (int row = 0; row < count; ++row) {
    for (float& value : values) value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    writer.finish(row, values.data());
  }
  return rows;
}

/// The rows packed for one of the kernels.
std::vector<uint32_t> pack(const MatrixLayout& matrix, TileLayout layout,
                           const std::vector<uint8_t>& rows, int count) {
  const ActivationLayout activation{matrix.format, matrix.columns};
  const uint8_t* at[16];
  for (int row = 0; row < count; ++row) at[row] = rows.data() + row * activation.rowBytes();
  const TilePacker packer(matrix, layout);
  std::vector<uint32_t> words(static_cast<size_t>(packer.words(count)));
  packer.pack(words.data(), at, count);
  return words;
}

/// The same M rows by the same panel, by both kernels.
template <BlockType kType, int M>
bool isSame(int64_t columns, std::mt19937& random) {
  const MatrixLayout matrix{Format::q8, kPanelRows, columns, kType};
  std::vector<uint32_t> panel(static_cast<size_t>(matrix.panelWords()));
  fillPanel(reinterpret_cast<uint8_t*>(panel.data()), matrix.bytes(), random);
  const std::vector<uint8_t> rows = randomRows({Format::q8, columns}, M, random);
  alignas(64) float wanted[M * kPanelRows], actual[M * kPanelRows];

  const auto woven = pack(matrix, TileLayout::woven, rows, M);
  multiplyBlocks<PackedSource<kType>, M>(woven.data(), panel.data(), columns, {nullptr, 0},
                                             wanted);
  std::vector<uint32_t> expanded(static_cast<size_t>(expandedWords(kType, columns)));
  expandPanel(kType, panel.data(), columns, expanded.data());
  const auto apart = pack(matrix, TileLayout::apart, rows, M);
  matrixKernelQ8(kType, M)(apart.data(), expanded.data(), columns, {nullptr, 0}, actual);
  return std::memcmp(wanted, actual, sizeof wanted) == 0;
}

template <BlockType kType>
bool areSame(std::mt19937& random) {
  bool same = true;
  for (const int64_t columns : {256, 288, 768}) {
    if (traitsOf(kType).columns > 32 && columns % 256 != 0) continue;
    same = isSame<kType, 7>(columns, random) && isSame<kType, 8>(columns, random) &&
           isSame<kType, 13>(columns, random) && isSame<kType, 16>(columns, random) && same;
  }
  return same;
}

}  // namespace
}  // namespace perigee

int main() {
  using namespace perigee;
  std::mt19937 random(1);
  int different = 0;
  for (int type = 0; type < kBlockTypes; ++type) {
    const bool same = withBlockType(static_cast<BlockType>(type),
                                    [&](auto kType) { return areSame<kType()>(random); });
    if (same) continue;
    std::printf("type %d differs\n", type);
    ++different;
  }
  std::printf("%d types compared\n", kBlockTypes);
  return different == 0 ? 0 : 1;
}
