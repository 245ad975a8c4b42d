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
//           Prefetching 8 KiB ahead (Intel): one row of Q4_0 takes 36 % less time on 8 threads.
// Checked   test/devices/cpu/linear.test.ts, bitwise independent of M; bench/kernels/linear.mjs
#include <algorithm>
#include <numeric>

#include "cores.h"
#include "linear-job.h"

namespace perigee {

namespace {

// A block's packed rows share the second-level cache with a panel: they have half of it.
constexpr int64_t kBlockTilesMax = 32;
// Tasks per thread. More tasks balance better when a thread is descheduled; fewer repeat less
// packing.
constexpr int64_t kTasksPerThread = 4;
// Where threads prefetch ahead, each has one large first task, together this percentage of the
// panels: they prefetch on for longer, and small tasks still end together. On 8 threads of an Intel
// Xeon one row of Q4_0 takes 8 % less time.
constexpr int64_t kFirstTasksPercent = 60;

// Number of tiles that prefetch a panel together: a step of the panel is this many cache lines.
constexpr int64_t kPrefetchTiles = kPanelRows * 4 / kLineBytes;

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

/// Partition of one job: tiles of nearly equal row counts, blocks of tiles, runs of panels.
class LinearPlan {
 public:
  LinearPlan(const LinearJob& job, int threads)
      : job_(&job),
        unit_(usesMatrixUnit(job)),
        fullRows_(job.layout.format == Format::q8 && !unit_ ? kPackedRowsMax
                                                            : tileRows(job.layout.format)),
        tiles_((job.count + fullRows_ - 1) / fullRows_),
        expands_(job.layout.format == Format::q8 &&
                 (unit_ || tiles_ > packedTilesMax(job.layout.type))),
        packer_(job.layout, tileLayout()) {
    const int64_t tileBytes = std::max<int64_t>(4, packer_.words(fullRows_) * 4);
    const int64_t tilesMax = std::clamp<int64_t>(level2Bytes() / 2 / tileBytes, 1, kBlockTilesMax);
    blocks_ = std::max<int64_t>(1, (tiles_ + tilesMax - 1) / tilesMax);
    const int64_t panels = job.layout.panels();
    if (threads > 1 && prefetchesAhead()) {
      firstPanels_ = panels * kFirstTasksPercent / 100 / threads;
      firstRuns_ = firstPanels_ > 0 ? threads : 0;
    }
    const int64_t rest = std::max<int64_t>(1, panels - firstRuns_ * firstPanels_);
    runs_ = firstRuns_ + std::clamp<int64_t>(runsWanted(threads), 1, rest);
  }

  int64_t tasks() const { return blocks_ * runs_; }
  int64_t tiles() const { return tiles_; }
  int64_t block(int64_t task) const { return task / runs_; }
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
    const int64_t run = task % runs_;
    const int64_t last = firstPanel(run + 1);
    for (int64_t panel = firstPanel(run); panel < last; ++panel) {
      multiplyPanel(task / runs_, panel, last, words, expanded);
    }
  }

  /// Prefetches the beginning of the task's weights, before its rows are packed.
  void prefetch(int64_t task) const {
    if (!prefetchesAhead()) return;
    const int64_t run = task % runs_;
    const Prefetch begin{panelAt(firstPanel(run)), 0, panelAt(firstPanel(run + 1))};
    for (int64_t at = 0; at < prefetchDistance(); at += kLineBytes) begin.askAhead(at, kLineBytes);
  }

 private:
  /// Whether the weights are read once, one panel after the other, by a processor that gains by it.
  bool prefetchesAhead() const { return tiles_ == 1 && !expands_ && prefetchDistance() > 0; }

  /// The first panel of a run; behind the last run the end of all.
  int64_t firstPanel(int64_t run) const {
    if (run < firstRuns_) return run * firstPanels_;
    const int64_t before = firstRuns_ * firstPanels_;
    const int64_t rest = job_->layout.panels() - before;
    return before + (run - firstRuns_) * rest / (runs_ - firstRuns_);
  }

  const uint8_t* panelAt(int64_t panel) const {
    return reinterpret_cast<const uint8_t*>(job_->weight + panel * job_->layout.panelWords());
  }

  /// The tasks are a multiple of the threads, so that none has to wait for the last one.
  int64_t runsWanted(int threads) const {
    if (threads == 1) return 1;
    const int64_t multiple = threads / std::gcd<int64_t>(blocks_, threads);
    const int64_t together = blocks_ * multiple;
    return (threads * kTasksPerThread + together - 1) / together * multiple;
  }

  /// Few rows of q8 do not: their weights are read sooner than a panel is expanded. On 8 threads of
  /// an Intel Xeon 8 rows of Q4_0 take 2.1 ms instead of 3.5.
  static bool usesMatrixUnit(const LinearJob& job) {
    if (!kMatrixUnit || job.layout.format == Format::f32) return false;
    return job.layout.format != Format::q8 ||
           job.count > kPackedRowsMax * packedTilesMax(job.layout.type);
  }

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
    const uint32_t* const weight = expands_ ? expanded : stored;
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
      kernel(count)(words, weight, job_->layout.columns, next, sums);
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
  int fullRows_;
  int64_t tiles_;
  bool expands_;
  TilePacker packer_;
  int64_t blocks_, runs_;
  int64_t firstRuns_ = 0, firstPanels_ = 0;  // large ones, and the panels of each
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
  pool.parallelFor(planned.tasks, [&](int64_t task, int thread) {
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

PERIGEE_EXPORT void perigee_linear(const LinearParams* params) {
  const LinearJob whole{
      {formatOf(params->format), params->rows, params->columns},
      params->weight,
      params->x,
      nullptr,
      params->count,
      params->out,
      params->bias,
      params->accumulate != 0,
      params->rows,
  };
  LinearJob jobs[kSegmentsMax];
  runLinearJobs(*params->pool, jobs, appendJobs(jobs, whole) - jobs);
}

}  // namespace perigee
