// Runs of consecutive panels of a matrix, the tasks of a product: nearly equal, or in rounds.
//
//    rounds, 3 threads    | run 0 | run 1 | run 2 | 3 | 4 | 5 |6|7|8|     panels
//                         '--- most of them ------'
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace perigee {

class PanelRuns {
 public:
  /// No runs.
  PanelRuns() = default;

  /// Nearly equal runs, for each of `blocks` blocks of rows: a multiple of the threads, so that
  /// none has to wait for the last one.
  static PanelRuns equal(int64_t panels, int64_t blocks, int threads) {
    int64_t wanted = 1;
    if (threads > 1) {
      const int64_t multiple = threads / std::gcd<int64_t>(blocks, threads);
      const int64_t together = blocks * multiple;
      wanted = (threads * kTasksPerThread + together - 1) / together * multiple;
    }
    PanelRuns runs;
    runs.add(panels);
    runs.perRound_ = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, panels));
    return runs;
  }

  /// Rounds of one run per thread. The first has most of the panels, each later one half of those
  /// left: threads prefetch on for longer, and small runs still end together.
  static PanelRuns inRounds(int64_t panels, int64_t panelBytes, int threads) {
    if (threads == 1) return equal(panels, 1, 1);
    const int64_t least = std::max<int64_t>(1, kLastBytes / panelBytes);
    PanelRuns runs;
    int64_t end = panels * kFirstRoundPercent / 100 / threads * threads;
    while (runs.rounds_ + 1 < kRoundsMax && end > runs.roundEnd(runs.rounds_ - 1)) {
      runs.add(end);
      end += (panels - end) / 2 / threads * threads;
      if ((panels - end) / threads < least) break;
    }
    runs.add(panels);
    runs.perRound_ = std::clamp<int64_t>(panels, 1, threads);
    return runs;
  }

  int64_t count() const { return rounds_ * perRound_; }
  int64_t ofRound() const { return perRound_; }
  int64_t roundEnd(int round) const { return round < 0 ? 0 : roundEnds_[round]; }

  /// The first panel of a run; behind the last run the end of all.
  int64_t firstPanel(int64_t run) const {
    const auto round = static_cast<int>(run / perRound_);
    const int64_t begin = roundEnd(round - 1);
    if (round == rounds_) return begin;
    return begin + run % perRound_ * (roundEnd(round) - begin) / perRound_;
  }

 private:
  // More tasks balance better when a thread is descheduled; fewer repeat less packing.
  static constexpr int64_t kTasksPerThread = 4;
  // Of the panels. On 8 threads of an Intel Xeon a large first round takes 8 % off the time of one
  // row of Q4_0.
  static constexpr int64_t kFirstRoundPercent = 60;
  static constexpr int kRoundsMax = 8;
  // A run of the last round has as many panels as this takes, or one.
  static constexpr int64_t kLastBytes = 48 << 10;

  void add(int64_t end) { roundEnds_[rounds_++] = end; }

  int rounds_ = 0;
  int64_t perRound_ = 0;
  int64_t roundEnds_[kRoundsMax] = {};
};

}  // namespace perigee
