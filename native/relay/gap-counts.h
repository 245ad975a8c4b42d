// Times between pieces of one answer with tokens, counted by the bounds of a histogram and by
// whether they met their answer's deadline. One thread counts, any may read.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace perigee {

// How the gaps of one answer are counted.
struct GapWatch {
  // False: they say nothing, as with several sequences in one answer.
  bool isCounted = false;
  // 0: there is none.
  int64_t deadlineUs = 0;
};

class GapCounts {
 public:
  // Ascending; what is above the last one has a count of its own.
  explicit GapCounts(std::vector<int64_t> boundsUs);

  void add(int64_t us, const GapWatch& watch);
  // Numbers that `read` writes: a count for each bound and for what is above, the sum of all in us,
  // how many met their deadline and how many did not.
  size_t size() const { return boundsUs_.size() + 4; }
  void read(double* into) const;

 private:
  using Count = std::atomic<uint64_t>;
  static void increase(Count* count, uint64_t by);

  const std::vector<int64_t> boundsUs_;
  const std::unique_ptr<Count[]> counts_;
};

}  // namespace perigee
