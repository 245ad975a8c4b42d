// Packs quantised blocks of a file, or floats as q8_0, into a segment of a q8 matrix
// (packed-matrix.h).
//
// Work    one task per panel: blocks of its rows are taken apart and written lane by lane
// Bound   memory: the source is read once and the packed matrix written once
// Checked test/devices/cpu/packed-matrix.test.ts
#include <algorithm>
#include <atomic>

#include "block-decode.h"
#include "packed-matrix.h"
#include "thread-pool.h"
#include "widen-rows.h"

namespace perigee {

namespace {

struct PackedSizeParams {
  Int columns;
  Int segments;
  Int values[];  // type and rows of each segment
};

struct PackBlocksParams {
  ThreadPool* pool;
  PackedHeader* matrix;
  Int columns;
  Int segment;
  Int firstRow;    // row of the segment at which this source begins
  Int sourceRows;
  Int element;     // -1: blocks of the segment's type
  Int transposed;  // floats: the source is [columns, sourceRows]
};

/// Fills in the segments; returns the bytes of the matrix.
int64_t planSegments(const PackedSizeParams& params, PackedHeader& header) {
  header.segments = params.segments;
  int64_t end = kPackedHeaderBytes, row = 0;
  for (int64_t i = 0; i < header.segments; ++i) {
    PackedSegment& segment = header.at[i];
    segment = {params.values[2 * i], row, params.values[2 * i + 1], end};
    const MatrixLayout layout = segment.layout(params.columns);
    end += layout.bytes();
    row += segment.rows;
  }
  return end;
}

/// Writes a group of 32 numbers as the words of one lane.
template <BlockType kType>
void writeNumbers(uint32_t* words, const uint8_t* numbers) {
  constexpr BlockTraits traits = traitsOf(kType);
  const auto word = [&](int index, auto byteOf) {
    uint32_t value = 0;
    for (int byte = 0; byte < 4; ++byte) {
      value |= static_cast<uint32_t>(byteOf(byte)) << (8 * byte);
    }
    words[index * kPanelRows] = value;
  };
  const auto at = [&](int step, int byte) -> uint32_t { return numbers[4 * step + byte]; };
  if constexpr (traits.bits == 8) {
    for (int step = 0; step < kBlockSteps; ++step) {
      // Adding 128 to a byte modulo 256 flips its top bit.
      word(step, [&](int byte) { return (at(step, byte) ^ kWeightOffset) & 255u; });
    }
    return;
  }
  if constexpr (traits.bits < 4) {
    for (int half = 0; half < 2; ++half) {
      word(half, [&](int byte) {
        uint32_t bits = 0;
        for (int i = 0; i < 4; ++i) bits |= (at(4 * half + i, byte) & 3u) << (2 * i);
        return bits;
      });
    }
  } else {
    for (int step = 0; step < 4; ++step) {
      word(step, [&](int byte) {
        return (at(step, byte) & 15u) | (at(step + 4, byte) & 15u) << 4;
      });
    }
  }
  constexpr int bitsBelow = traits.bits < 4 ? 2 : 4;
  constexpr int wordsBelow = traits.bits < 4 ? 2 : 4;
  if constexpr (traits.bits == 3 || traits.bits == 5) {
    word(wordsBelow, [&](int byte) {
      uint32_t bits = 0;
      for (int step = 0; step < kBlockSteps; ++step) bits |= (at(step, byte) >> bitsBelow) << step;
      return bits;
    });
  }
  if constexpr (traits.bits == 6) {
    for (int half = 0; half < 2; ++half) {
      word(wordsBelow + half, [&](int byte) {
        uint32_t bits = 0;
        for (int i = 0; i < 4; ++i) bits |= (at(4 * half + i, byte) >> 4) << (2 * i);
        return bits;
      });
    }
  }
}

/// Writes scales and minima of one lane and group. `lane`: bytes behind the group's words.
template <BlockType kType>
void writeScales(uint8_t* scales, const DecodedBlock& block, int group, int lane) {
  constexpr BlockTraits traits = traitsOf(kType);
  constexpr int count = traits.scalesPerGroup();
  if constexpr (traits.scales == ScaleKind::half) {
    std::memcpy(scales + 2 * lane, &block.scale, 2);
    if constexpr (traits.mins) std::memcpy(scales + 2 * (kPanelRows + lane), &block.min, 2);
  } else {
    for (int sub = 0; sub < count; ++sub) {
      scales[sub * kPanelRows + lane] = block.scales[group * count + sub];
      if constexpr (traits.mins) {
        scales[(count + sub) * kPanelRows + lane] = block.mins[group * count + sub];
      }
    }
  }
}

bool isFinite(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

/// Writes a row's blocks into its lane of a panel; returns how many have scales that are not
/// finite.
template <BlockType kType>
int64_t writeRow(uint8_t* panel, int lane, const uint8_t* blocks, int64_t columns) {
  constexpr BlockTraits traits = traitsOf(kType);
  int64_t bad = 0;
  DecodedBlock block;
  for (int64_t start = 0; start < columns; start += traits.columns, blocks += traits.bytes) {
    decodeBlock<kType>(blocks, block);
    bad += !isFinite(block.scale) || !isFinite(block.min);
    if constexpr (traits.scales == ScaleKind::super) {
      std::memcpy(panel + 2 * lane, &block.scale, 2);
      if constexpr (traits.mins) std::memcpy(panel + 2 * (kPanelRows + lane), &block.min, 2);
      panel += traits.superBytes() * kPanelRows;
    }
    for (int group = 0; group < traits.columns / kBlockColumns; ++group) {
      writeNumbers<kType>(reinterpret_cast<uint32_t*>(panel) + lane,
                          block.numbers + kBlockColumns * group);
      writeScales<kType>(panel + traits.bits * 4 * kPanelRows, block, group, lane);
      panel += traits.groupBytes() * kPanelRows;
    }
  }
  return bad;
}

/// A row as blocks of q8_0. The scale is rounded up to f16 first, so that no number exceeds 127.
void quantizeRow(uint8_t* blocks, const float* values, int64_t columns) {
  for (int64_t start = 0; start < columns; start += kBlockColumns, blocks += 34) {
    const int64_t left = columns - start;
    const int64_t count = left < kBlockColumns ? left : kBlockColumns;
    const float exact = largestMagnitude(values + start, count) / 127.0f;
    uint16_t half = narrowF16(exact);
    if (widenF16(half) < exact) ++half;
    const float scale = widenF16(half);
    int8_t numbers[kBlockColumns] = {};
    quantizeRun(numbers, values + start, count, broadcast(scale > 0.0f ? scale : 1.0f));
    std::memcpy(blocks, &half, 2);
    std::memcpy(blocks + 2, numbers, sizeof numbers);
  }
}

}  // namespace

PERIGEE_EXPORT int64_t perigee_packed_bytes(const PackedSizeParams* params) {
  PackedHeader header;
  return planSegments(*params, header);
}

/// Writes the header of a matrix whose memory is zero.
PERIGEE_EXPORT void perigee_packed_begin(const PackedSizeParams* params, void* matrix) {
  planSegments(*params, *static_cast<PackedHeader*>(matrix));
}

/// Packs rows [firstRow, firstRow + sourceRows) of a segment. Returns the number of blocks whose
/// scale or minimum is infinite or NaN.
PERIGEE_EXPORT int64_t perigee_pack_blocks(const PackBlocksParams* params, const uint8_t* source) {
  PackedHeader& matrix = *params->matrix;
  const PackedSegment& segment = matrix.at[int64_t{params->segment}];
  const MatrixLayout layout = segment.layout(params->columns);
  const int64_t columns = params->columns;
  const int64_t begin = params->firstRow, end = begin + params->sourceRows;
  if (end == begin) return 0;
  auto* const panels = reinterpret_cast<uint8_t*>(&matrix) + segment.startBytes;
  const bool isFloats = params->element >= 0;
  const FileMatrix file{source, isFloats ? elementOf(params->element) : Element::f32,
                        params->transposed != 0, params->sourceRows, columns};
  const int64_t floatBlockBytes = blockCount(columns) * 34;
  const int64_t firstPanel = begin / kPanelRows;
  const int64_t count = (end + kPanelRows - 1) / kPanelRows - firstPanel;
  std::atomic<int64_t> bad{0};
  params->pool->parallelFor(count, [&](int64_t task, int thread) {
    const int64_t panel = firstPanel + task;
    const int64_t first = std::max(begin, panel * kPanelRows);
    const int64_t last = std::min(end, (panel + 1) * kPanelRows);
    const int64_t rows = last - first;
    uint8_t* const to = panels + panel * layout.panelWords() * 4;
    if (isFloats) {
      const int64_t floats = (rows * columns + 15) / 16 * 16;
      float* const values = params->pool->scratch<float>(floats + floatBlockBytes / 4 + 1, thread);
      auto* const blocks = reinterpret_cast<uint8_t*>(values + floats);
      widenRows(values, file, first - begin, last - begin);
      for (int64_t row = 0; row < rows; ++row) {
        quantizeRow(blocks, values + row * columns, columns);
        bad += writeRow<BlockType::q8_0>(to, static_cast<int>((first + row) % kPanelRows), blocks,
                                         columns);
      }
      return;
    }
    withBlockType(layout.type, [&](auto type) {
      constexpr BlockTraits traits = traitsOf(type());
      const int64_t rowBytes = columns / traits.columns * traits.bytes;
      for (int64_t row = first; row < last; ++row) {
        bad += writeRow<type()>(to, static_cast<int>(row % kPanelRows),
                                source + (row - begin) * rowBytes, columns);
      }
    });
  });
  return bad;
}

}  // namespace perigee
