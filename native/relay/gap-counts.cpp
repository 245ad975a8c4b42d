#include "gap-counts.h"

#include <algorithm>
#include <utility>

namespace perigee {

GapCounts::GapCounts(std::vector<int64_t> boundsUs)
    : boundsUs_(std::move(boundsUs)), counts_(new Count[boundsUs_.size() + 4]()) {}

// Only one thread writes: nothing is lost between the load and the store.
void GapCounts::increase(Count* count, uint64_t by) {
  count->store(count->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

void GapCounts::add(int64_t us, const GapWatch& watch) {
  if (!watch.isCounted) return;
  const int64_t gap = std::max<int64_t>(us, 0);
  const size_t bounds = boundsUs_.size();
  const size_t at =
      size_t(std::lower_bound(boundsUs_.begin(), boundsUs_.end(), gap) - boundsUs_.begin());
  increase(&counts_[at], 1);
  increase(&counts_[bounds + 1], uint64_t(gap));
  if (watch.deadlineUs == 0) return;
  increase(&counts_[gap <= watch.deadlineUs ? bounds + 2 : bounds + 3], 1);
}

void GapCounts::read(double* into) const {
  for (size_t at = 0; at < size(); ++at) {
    into[at] = double(counts_[at].load(std::memory_order_relaxed));
  }
}

}  // namespace perigee
