// Accepts drafted tokens, a chain's first ones that are what was sampled in their place, without a
// round trip to the host.
//
//   a[c] = leading i < drafted[c] where ids[firstIds[c] + i] == sampled[firstSampled[c] + i]
//   roots[c] = sampled[firstSampled[c] + a[c]], places[p, c] += a[c]
//
// Shapes   firstIds, firstSampled, drafted, roots [C]; places [P, C]; ids [T]; sampled [R], i32
// Work     one thread per chain: chains are short
// Bound    latency: some bytes per chain
// Checked  bench/gpu/smoke.mjs, acceptChains
#include "params.h"

namespace perigee {

struct AcceptChainsParams {
  const int* ids;
  const int* sampled;
  const int* firstIds;
  const int* firstSampled;
  const int* drafted;
  int* roots;
  int* places;
  int count;
  int placeRows;
};

PERIGEE_KERNEL perigee_accept_chains(const __grid_constant__ AcceptChainsParams p) {
  joinStream();
  const int chain = blockIdx.x * blockDim.x + threadIdx.x;
  if (chain >= p.count) return;
  const int* ids = p.ids + p.firstIds[chain];
  const int* sampled = p.sampled + p.firstSampled[chain];
  const int drafted = p.drafted[chain];
  int accepted = 0;
  while (accepted < drafted && ids[accepted] == sampled[accepted]) ++accepted;
  p.roots[chain] = sampled[accepted];
  for (int row = 0; row < p.placeRows; ++row) p.places[row * p.count + chain] += accepted;
}

}  // namespace perigee
