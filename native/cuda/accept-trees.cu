// Accepts drafted tokens without a round trip to the host: those nodes of a token tree whose token
// is what was sampled behind their parent, an accepted one. Node 0 is the root, which is no draft.
//
//   node n is accepted if its parent is and
//     ids[firstIds[c] + n - 1] == sampled[firstSampled[c] + parent]
//   a[c] = the deepest such node, the first of several
//   roots[c] = sampled[firstSampled[c] + a[c]], nodes[c] += a[c], depths[c] += its depth
//
// Shapes   firstIds, firstSampled, drafted, roots, nodes, depths [C]; parents [C, P]; ids [T];
//          sampled [R], i32
// Work     one warp per tree; a lane has two nodes. Nodes whose tokens match are found at once, and
//          what is accepted grows by one level at a time
// Bound    latency: some bytes per tree
// Checked  bench/gpu/smoke.mjs, acceptTrees
#include "params.h"

namespace perigee {

struct AcceptTreesParams {
  const int* ids;
  const int* sampled;
  const int* firstIds;
  const int* firstSampled;
  const int* drafted;
  const int* parents;
  int* roots;
  int* nodes;
  int* depths;
  int count;
  int columns;  // P
};

constexpr int kWarpLanes = 32;
constexpr int kHalves = 2;

PERIGEE_KERNEL perigee_accept_trees(const __grid_constant__ AcceptTreesParams p) {
  joinStream();
  const int tree = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / kWarpLanes);
  const int lane = static_cast<int>(threadIdx.x % kWarpLanes);
  if (tree >= p.count) return;
  const int* const ids = p.ids + p.firstIds[tree];
  const int* const sampled = p.sampled + p.firstSampled[tree];
  const int* const parents = p.parents + static_cast<int64_t>(tree) * p.columns;
  const int drafted = p.drafted[tree];
  int parent[kHalves];
  bool matches[kHalves];
  for (int half = 0; half < kHalves; ++half) {
    const int node = half * kWarpLanes + lane;
    const bool exists = node > 0 && node <= drafted;
    parent[half] = exists ? parents[node - 1] : 0;
    matches[half] = exists && ids[node - 1] == sampled[parent[half]];
  }
  // The nodes that were accepted last, and how deep they are; their children come next.
  uint64_t level = 1;
  int depth = 0;
  for (;;) {
    uint64_t next = 0;
    for (int half = 0; half < kHalves; ++half) {
      const bool follows = matches[half] && ((level >> parent[half]) & 1u) != 0;
      const uint64_t found = __ballot_sync(0xffffffffu, follows);
      next |= found << (half * kWarpLanes);
    }
    if (next == 0) break;
    level = next;
    ++depth;
  }
  if (lane > 0) return;
  const int best = __ffsll(static_cast<long long>(level)) - 1;
  p.roots[tree] = sampled[best];
  p.nodes[tree] += best;
  p.depths[tree] += depth;
}

}  // namespace perigee
