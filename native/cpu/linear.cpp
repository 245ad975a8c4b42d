// GEMM: y[m, n] = sum over k of x[m, k] * w[n, k] + bias[n], optionally added to y.
//
// M tokens · N outputs · K inputs
//
//                   run 0        run 1        run 2           panels of w (kPanelRows outputs)
//                +-----------+------------+-----------+
//    block 0     |  task 0   |   task 1   |  task 2   |   up to 32 tiles of x, packed once or per
//    block 1     |  task 3   |   task 4   |  task 5   |   thread and kept in its L2
//                +-----------+------------+-----------+
//    inside a task:  for each panel of the run, for each tile of the block: tile kernel
//
// Shapes    x [M, K] activation · w [N, K] packed (matrix.h) · bias [N] f32 · y [M, N] f32. A q8
//           matrix whose rows differ in type is one job for each type.
// Work      One task per (block of up to 32 tiles, run of consecutive panels). Many rows are packed
//           by all threads beforehand; a few each thread packs for itself, which takes less time
//           than to wait for others. They stay in its L2 while the panels are streamed. All tiles
//           of the block use a panel before the next panel is read.
// Bound     few rows, memory: each weight is read exactly once. Many rows, compute: the multiply
//           units
// Versions  With AMX (linear-amx.cpp) up to 16 rows take about the time of one.
//           Prefetching the next panel: on Zen 4, 16 rows take 12 % (i8) and 17 % (bf16) less time.
//           bf16 without instructions for it (AVX2): panels widened once take 512 rows from 142 to
//           195 GFLOP/s on two threads of a Zen 4.
//           Prefetching 8 KiB ahead (Intel): one row of Q4_0 takes 36 % less time on 8 threads.
// Checked   test/devices/cpu/linear.test.ts, bitwise independent of M; bench/kernels/linear.mjs
#include <algorithm>

#include "cores.h"
#include "linear-job.h"
#include "panel-runs.h"

namespace perigee {

struct LinearParams {
  ThreadPool* pool;
  float* out;
  const uint8_t* x;
  const uint32_t* weight;
  const float* bias;
  Int format;
  Int count;
  Int rows;
  Int columns;
  Int accumulate;
};

namespace {

// A block's packed rows share the second-level cache with a panel: they have half of it.
constexpr int64_t kBlockTilesMax = 32;
// The part of a thread's second-level cache that may hold what it read ahead.
constexpr int64_t kAheadShare = 4;

// Number of tiles that prefetch a panel together: a step of the panel is this many cache lines.
constexpr int64_t kPrefetchTiles = kPanelRows * 4 / kLineBytes;

LinearJob jobOf(const LinearParams& params) {
  return {
      {formatOf(params.format), params.rows, params.columns},
      params.weight,
      params.x,
      nullptr,
      params.count,
      params.out,
      params.bias,
      params.accumulate != 0,
      params.rows,
  };
}

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
    return kBf16Parts == 2 && job.layout.format == Format::bf16 &&
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
  /// request lines that are already in flight, which costs as much as a miss. A single tile waits
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

/// The block that a thread's scratch holds packed: one packing serves all of its runs.
struct alignas(64) Packed {
  int64_t job = -1;
  int64_t block = -1;
};

/// Plan of a job, and the numbers of its first task and of its first tile among those of all jobs.
struct PlannedJob {
  LinearPlan plan;
  int64_t firstTask;
  int64_t firstTile;
  uint32_t* words;  // of the packed tiles, if all threads pack them
};

// Fewer rows are packed by each thread, and more bytes are not kept. On two threads what the other
// one packed takes longer to read than to pack.
constexpr int kSharedThreadsLeast = 4;
constexpr int64_t kSharedRowsLeast = 48;
constexpr int64_t kSharedBytesMax = 64 << 20;

/// Words of all packed tiles if all threads pack them, else 0.
int64_t sharedWords(const LinearJob* jobs, int64_t jobCount, int threads) {
  if (threads < kSharedThreadsLeast) return 0;
  int64_t rows = 0, words = 0;
  for (int64_t job = 0; job < jobCount; ++job) {
    const LinearPlan plan(jobs[job], threads);
    rows += jobs[job].count;
    words += plan.tiles() * plan.tileWords();
  }
  return rows >= kSharedRowsLeast && words * 4 <= kSharedBytesMax ? words : 0;
}

/// Jobs with their plans, in scratch of the pool.
struct PlannedJobs {
  PlannedJob* jobs;
  int64_t count;
  Packed* packed;  // of each thread
  int64_t tasks = 0, tiles = 0;
  int64_t blockWords = 0, panelWords = 0;  // of a thread
  bool isShared;

  PlannedJobs(ThreadPool& pool, const LinearJob* asked, int64_t jobCount) : count(jobCount) {
    const int threads = pool.threads();
    const int64_t words = sharedWords(asked, jobCount, threads);
    const int64_t planLines =
        (jobCount * static_cast<int64_t>(sizeof(PlannedJob)) + kLineBytes - 1) / kLineBytes;
    isShared = words > 0;
    packed = pool.planScratch<Packed>(threads + planLines + words * 4 / kLineBytes);
    std::fill_n(packed, threads, Packed{});
    jobs = reinterpret_cast<PlannedJob*>(packed + threads);
    auto* shared = reinterpret_cast<uint32_t*>(packed + threads + planLines);
    for (int64_t job = 0; job < jobCount; ++job) {
      const LinearPlan plan(asked[job], threads);
      new (&jobs[job]) PlannedJob{plan, tasks, tiles, shared};
      tasks += plan.tasks();
      tiles += plan.tiles();
      panelWords = std::max(panelWords, plan.panelWords());
      if (isShared) {
        shared += plan.tiles() * plan.tileWords();
      } else {
        blockWords = std::max(blockWords, plan.blockWords());
      }
    }
  }

  /// The job that a task or a tile belongs to.
  int64_t jobOf(int64_t index, int64_t PlannedJob::*first) const {
    int64_t job = count - 1;
    while (jobs[job].*first > index) --job;
    return job;
  }

  void packTile(int64_t index) const {
    const PlannedJob& job = jobs[jobOf(index, &PlannedJob::firstTile)];
    const int64_t tile = index - job.firstTile;
    job.plan.packTile(tile, job.words + tile * job.plan.tileWords());
  }

  void multiply(int64_t index, int thread, uint32_t* own) const {
    const int64_t at = jobOf(index, &PlannedJob::firstTask);
    const PlannedJob& job = jobs[at];
    const LinearPlan& plan = job.plan;
    const int64_t task = index - job.firstTask, block = plan.block(task);
    plan.prefetch(task);
    const uint32_t* words = own;
    if (isShared) {
      words = job.words + plan.firstTile(block) * plan.tileWords();
    } else if (packed[thread].job != at || packed[thread].block != block) {
      plan.packBlock(block, own);
      packed[thread] = {at, block};
    }
    plan.multiply(task, words, own + blockWords);
  }
};

}  // namespace

void runLinearJobs(ThreadPool& pool, const LinearJob* jobs, int64_t jobCount) {
  const PlannedJobs planned(pool, jobs, jobCount);
  if (planned.isShared) {
    pool.parallelFor(planned.tiles, [&](int64_t index, int) { planned.packTile(index); });
  }
  const int owned = jobCount > 0 ? planned.jobs[0].plan.owned(pool.threads()) : 0;
  pool.parallelFor(planned.tasks, owned, [&](int64_t task, int thread) {
    const int64_t words = planned.blockWords + planned.panelWords;
    planned.multiply(task, thread, pool.scratch<uint32_t>(words, thread));
    if constexpr (kMatrixUnit) releaseMatrixUnit();
  });
}

LinearJob* appendJobs(LinearJob* end, const LinearJob& whole) {
  if (whole.layout.format != Format::q8) {
    *end = whole;
    return end + 1;
  }
  const auto& header = *reinterpret_cast<const PackedHeader*>(whole.weight);
  for (int64_t i = 0; i < header.segments; ++i, ++end) {
    const PackedSegment& segment = header.at[i];
    *end = whole;
    end->layout = segment.layout(whole.layout.columns);
    end->weight = header.panels(segment);
    end->out += segment.firstRow;
    if (whole.bias != nullptr) end->bias += segment.firstRow;
  }
  return end;
}

void readAhead(const LinearParams& params) {
  LinearJob jobs[kSegmentsMax];
  appendJobs(jobs, jobOf(params));
  ThreadPool& pool = *params.pool;
  pool.readAhead(LinearPlan(jobs[0], pool.threads()).readAhead());
}

PERIGEE_EXPORT void perigee_linear(const LinearParams* params) {
  LinearJob jobs[kSegmentsMax];
  runLinearJobs(*params->pool, jobs, appendJobs(jobs, jobOf(*params)) - jobs);
}

}  // namespace perigee
