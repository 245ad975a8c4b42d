// How a GEMM is split into tasks: linear.cpp has the picture.
#pragma once

#include <algorithm>

#include "cores.h"
#include "linear-job.h"
#include "panel-runs.h"

namespace perigee {

// A block's packed rows share the second-level cache with a panel: they have half of it, but where
// panels are widened.
constexpr int64_t kBlockTilesMax = 32;
// The part of a thread's second-level cache that may hold what it read ahead.
constexpr int64_t kAheadShare = 4;

// Number of tiles that prefetch a panel together: a step of the panel is this many cache lines.
constexpr int64_t kPrefetchTiles = kPanelRows * 4 / kLineBytes;

/// Partition of one job: tiles of nearly equal row counts, blocks of tiles, runs of panels.
class LinearPlan {
 public:
  LinearPlan(const LinearJob& job, int threads)
      : job_(&job),
        unit_(usesMatrixUnit(job)),
        widens_(widensBf16(job)),
        fullRows_(job.layout.format == Format::q8 && !unit_ ? kPackedRowsMax
                                                            : tileRows(job.layout.format)),
        tiles_((job.count + fullRows_ - 1) / fullRows_),
        expands_(job.layout.format == Format::q8 &&
                 (unit_ || tiles_ > packedTilesMax(job.layout.type))),
        packer_(job.layout, tileLayout()) {
    const int64_t tileBytes = std::max<int64_t>(4, packer_.words(fullRows_) * 4);
    // Rows that are in the next cache cost less than to widen a panel more often.
    const int64_t tilesMax =
        widens_ ? kBlockTilesMax
                : std::clamp<int64_t>(level2Bytes() / 2 / tileBytes, 1, kBlockTilesMax);
    blocks_ = std::max<int64_t>(1, (tiles_ + tilesMax - 1) / tilesMax);
    const int64_t panelBytes = job.layout.panelWords() * 4;
    runs_ = prefetchesAhead() ? PanelRuns::inRounds(job.layout.panels(), panelBytes, threads)
                              : PanelRuns::equal(job.layout.panels(), blocks_, threads);
  }

  int64_t tasks() const { return blocks_ * runs_.count(); }

  /// How many of the first tasks are threads' own. Not where all tiles use a panel that was read.
  int owned(int threads) const {
    return tiles_ == 1 ? static_cast<int>(std::min<int64_t>(threads, runs_.ofRound())) : 0;
  }

  /// What the owned tasks read.
  ReadAhead readAhead() const {
    if (tiles_ != 1) return {};
    const int64_t panelBytes = job_->layout.panelWords() * 4;
    return {panelAt(0), runs_.roundEnd(0), runs_.ofRound(), panelBytes,
            level2Bytes() / kAheadShare};
  }

  int64_t tiles() const { return tiles_; }
  int64_t block(int64_t task) const { return task / runs_.count(); }
  int64_t firstTile(int64_t block) const { return block * tiles_ / blocks_; }

  /// Of the rows of a block.
  int64_t blockWords() const { return (tiles_ + blocks_ - 1) / blocks_ * tileWords(); }

  /// From a packed tile to the next.
  int64_t tileWords() const {
    if (tiles_ == 0) return 0;
    const auto rows = static_cast<int>((job_->count + tiles_ - 1) / tiles_);
    return (packer_.words(rows) + 15) / 16 * 16;
  }

  /// Of a panel that tiles share.
  int64_t panelWords() const {
    if (widens_) return widenedColumns() * kPanelRows;
    return expands_ ? expandedWords(job_->layout.type, job_->layout.columns) : 0;
  }

  /// Packs the rows of a tile into `words`.
  void packTile(int64_t tile, uint32_t* words) const {
    const ActivationLayout activation{job_->layout.format, job_->layout.columns};
    const int64_t rowBytes = activation.rowBytes();
    const uint8_t* rows[kTileRowsMax];
    const int64_t first = firstRow(tile);
    const int count = static_cast<int>(firstRow(tile + 1) - first);
    for (int row = 0; row < count; ++row) {
      const int64_t index = job_->xRows == nullptr ? first + row : job_->xRows[first + row];
      rows[row] = job_->x + index * rowBytes;
    }
    packer_.pack(words, rows, count);
  }

  void packBlock(int64_t block, uint32_t* words) const {
    for (int64_t tile = firstTile(block); tile < firstTile(block + 1); ++tile) {
      packTile(tile, words);
      words += tileWords();
    }
  }

  /// Multiplies a packed block by the panels of the task's run. `expanded`: room for panelWords.
  void multiply(int64_t task, const uint32_t* words, uint32_t* expanded) const {
    const int64_t run = task % runs_.count();
    const int64_t last = runs_.firstPanel(run + 1);
    for (int64_t panel = runs_.firstPanel(run); panel < last; ++panel) {
      multiplyPanel(block(task), panel, last, words, expanded);
    }
  }

  /// Prefetches the beginning of the task's weights, before its rows are packed.
  void prefetch(int64_t task) const {
    if (!prefetchesAhead()) return;
    const int64_t run = task % runs_.count();
    const Prefetch begin{panelAt(runs_.firstPanel(run)), 0, panelAt(runs_.firstPanel(run + 1))};
    for (int64_t at = 0; at < prefetchDistance(); at += kLineBytes) begin.askAhead(at, kLineBytes);
  }

 private:
  /// Whether the weights are read once, one panel after the other, by a processor that gains by it.
  bool prefetchesAhead() const { return tiles_ == 1 && !expands_ && prefetchDistance() > 0; }

  const uint8_t* panelAt(int64_t panel) const {
    return reinterpret_cast<const uint8_t*>(job_->weight + panel * job_->layout.panelWords());
  }

  /// Few rows of q8 do not: their weights are read sooner than a panel is expanded. On 8 threads of
  /// an Intel Xeon 8 rows of Q4_0 take 2.1 ms instead of 3.5.
  static bool usesMatrixUnit(const LinearJob& job) {
    if (!kMatrixUnit || job.layout.format == Format::f32) return false;
    return job.layout.format != Format::q8 ||
           job.count > kPackedRowsMax * packedTilesMax(job.layout.type);
  }

  /// Many rows of bf16, where nothing multiplies it as it is.
  static bool widensBf16(const LinearJob& job) {
    return bf16Parts() == 2 && job.layout.format == Format::bf16 &&
           job.count > tileRows(Format::bf16) * kBf16TilesMax;
  }

  /// Whole words of bf16.
  int64_t widenedColumns() const { return (job_->layout.columns + 1) / 2 * 2; }

  TileLayout tileLayout() const {
    if (unit_) return TileLayout::apart;
    const bool isWide = expands_ && kWidensSigned && traitsOf(job_->layout.type).isSigned();
    return isWide ? TileLayout::wide : TileLayout::woven;
  }

  /// Tiles for which the numbers are taken out of their panel again and again: simple ones cost
  /// less than bytes that are written and read, unless these are multiplied faster. Bytes as they
  /// are stay where they are.
  static int64_t packedTilesMax(BlockType type) {
    const BlockTraits traits = traitsOf(type);
    if (kWidensSigned && traits.isSigned()) return 2;
    if (!kMatrixUnit && type == BlockType::q8_0) return INT32_MAX;
    return traits.scales == ScaleKind::half ? 4 : 1;
  }

  TileKernel kernel(int rows) const {
    const MatrixLayout& layout = job_->layout;
    if (widens_) return tileKernelF32(rows);
    if (layout.format != Format::q8) return tileKernel(layout.format, rows);
    if constexpr (kMatrixUnit) {
      if (unit_) return matrixKernelQ8(layout.type, rows);
    }
    return expands_ ? expandedKernel(layout.type, rows) : packedKernel(layout.type, rows);
  }

  /// Distributes rows evenly over the tiles: 16 rows become 8 + 8, not 12 + 4.
  int64_t firstRow(int64_t tile) const { return tile * job_->count / tiles_; }

  /// With several tiles, the first ones prefetch the next panel, one cache line per step, so that
  /// memory transfers overlap the reuse of the current panel. Less than a line per step would
  /// request lines that are already in flight, which costs as much as a miss (a widened panel has
  /// two steps for each line, so that two panels are asked for). A single tile waits
  /// for memory anyway: where that helps, it prefetches what its run reads a distance later.
  void multiplyPanel(int64_t block, int64_t panel, int64_t last, const uint32_t* words,
                     uint32_t* expanded) const {
    const int64_t panelWords = job_->layout.panelWords();
    const uint32_t* const stored = job_->weight + panel * panelWords;
    if (expands_) expandPanel(job_->layout.type, stored, job_->layout.columns, expanded);
    if (widens_) widenPanelBf16(stored, job_->layout.columns, expanded);
    const uint32_t* const weight = expands_ || widens_ ? expanded : stored;
    const int64_t columns = widens_ ? widenedColumns() : job_->layout.columns;
    const int64_t begin = firstTile(block), end = firstTile(block + 1);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = firstRow(tile);
      const int count = static_cast<int>(firstRow(tile + 1) - first);
      Prefetch next{panelAt(panel), 0};
      if (prefetchesAhead()) {
        next = {panelAt(panel) + prefetchDistance(), 0, panelAt(last)};
      } else if (panel + 1 < last && end - begin > 1 && tile - begin < kPrefetchTiles) {
        next = {panelAt(panel + 1) + (tile - begin) * panelWords / kPrefetchTiles * 4, kLineBytes};
      }
      alignas(64) float sums[kTileRowsMax * kPanelRows];
      kernel(count)(words, weight, columns, next, sums);
      finish(sums, first, count, panel);
      words += tileWords();
    }
  }

  /// Epilogue: adds the bias and, if accumulating, the old output; writes only existing columns.
  void finish(const float* sums, int64_t first, int count, int64_t panel) const {
    const int64_t column = panel * kPanelRows;
    const int64_t columns = job_->layout.rows;
    for (int row = 0; row < count; ++row) {
      float* const out = job_->out + (first + row) * job_->outColumns + column;
      for (int64_t i = 0; i < kPanelRows && column + i < columns; i += kLanes) {
        const int lanes = lanesLeft(columns - column - i);
        F32 value = load(sums + row * kPanelRows + i);
        if (job_->bias != nullptr) value += loadFirst(job_->bias + column + i, lanes);
        if (job_->accumulate) value += loadFirst(out + i, lanes);
        storeFirst(out + i, value, lanes);
      }
    }
  }

  const LinearJob* job_;
  bool unit_;
  bool widens_;
  int fullRows_;
  int64_t tiles_;
  bool expands_;
  TilePacker packer_;
  int64_t blocks_;
  PanelRuns runs_;
};

}  // namespace perigee
