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
//           than to wait for others. They stay in its L2 while the panels are streamed, but where
//           panels are widened. All tiles of the block use a panel before the next panel is read.
// Bound     few rows, memory: each weight is read exactly once. Many rows, compute: the multiply
//           units
// Versions  With AMX (linear-amx.cpp) up to 16 rows take about the time of one.
//           Prefetching the next panel: on Zen 4, 16 rows take 12 % (i8) and 17 % (bf16) less time.
//           bf16 without instructions for it (AVX2): panels widened once take 512 rows from 142 to
//           195 GFLOP/s on two threads of a Zen 4.
//           AVX-512 of Intel, too, where vdpbf16ps takes longer than two products of f32: on 8
//           threads of a Xeon 16 rows take 5.5 ms instead of 7.4, 512 rows 137 to 170 instead of
//           207 to 234.
//           Prefetching 8 KiB ahead (Intel): one row of Q4_0 takes 36 % less time on 8 threads.
// Checked   test/devices/cpu/linear.test.ts, bitwise independent of M; bench/kernels/linear.mjs
#include <algorithm>

#include "linear-job.h"
#include "linear-plan.h"

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
