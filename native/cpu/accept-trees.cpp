// Accepts drafted tokens: those nodes of a token tree whose token is what was sampled behind their
// parent, an accepted one. Node 0 is the root, which is no draft.
//
// Formula  node n is accepted if its parent is and ids[firstIds[c] + n - 1] ==
//          sampled[firstSampled[c] + parent]; a[c] = the deepest such node, the first of several
//          roots[c] = sampled[firstSampled[c] + a[c]], nodes[c] += a[c], depths[c] += depth of a[c]
// Shapes   firstIds, firstSampled, drafted, roots, nodes, depths [C]; parents [C, P]; ids [T];
//          sampled [R]
// Work     a single loop: a step has few trees of few nodes
// Bound    latency: some bytes per tree
// Checked  test/contracts/device-ops/steps.ts, acceptTrees
#include "params.h"

namespace perigee {

struct AcceptTreesParams {
  const int32_t* ids;
  const int32_t* sampled;
  const int32_t* firstIds;
  const int32_t* firstSampled;
  const int32_t* drafted;
  const int32_t* parents;
  int32_t* roots;
  int32_t* nodes;
  int32_t* depths;
  Int count;
  Int columns;  // P
};

namespace {

/// Nodes of a tree, the root included: `TREE_NODES_MAX` of src/devices/tree-counts.ts.
constexpr int32_t kTreeNodesMax = 64;

void acceptTree(const AcceptTreesParams& p, int64_t tree) {
  const int32_t* ids = p.ids + p.firstIds[tree];
  const int32_t* sampled = p.sampled + p.firstSampled[tree];
  const int32_t* parents = p.parents + tree * p.columns;
  int32_t depths[kTreeNodesMax];  // -1: not accepted
  depths[0] = 0;
  int32_t best = 0;
  for (int32_t node = 1; node <= p.drafted[tree]; ++node) {
    const int32_t parent = parents[node - 1];
    const bool accepted = depths[parent] >= 0 && ids[node - 1] == sampled[parent];
    depths[node] = accepted ? depths[parent] + 1 : -1;
    if (depths[node] > depths[best]) best = node;
  }
  p.roots[tree] = sampled[best];
  p.nodes[tree] += best;
  p.depths[tree] += depths[best];
}

}  // namespace

PERIGEE_EXPORT void perigee_accept_trees(const AcceptTreesParams* params) {
  for (int64_t tree = 0; tree < params->count; ++tree) acceptTree(*params, tree);
}

}  // namespace perigee
