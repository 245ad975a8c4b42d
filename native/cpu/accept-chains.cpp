// Accepts drafted tokens: a chain's first ones that are what was sampled in their place.
//
// Formula  a[c] = leading i < drafted[c] where ids[firstIds[c] + i] == sampled[firstSampled[c] + i]
//          roots[c] = sampled[firstSampled[c] + a[c]], places[p, c] += a[c]
// Shapes   firstIds, firstSampled, drafted, roots [C]; places [P, C]; ids [T]; sampled [R]
// Work     a single loop: a step has few chains
// Bound    latency: some bytes per chain
// Checked  test/contracts/device-ops.ts, acceptChains
#include "params.h"

namespace perigee {

struct AcceptChainsParams {
  const int32_t* ids;
  const int32_t* sampled;
  const int32_t* first_ids;
  const int32_t* first_sampled;
  const int32_t* drafted;
  int32_t* roots;
  int32_t* places;
  Int count;
  Int place_rows;
};

PERIGEE_EXPORT void perigee_accept_chains(const AcceptChainsParams* params) {
  const AcceptChainsParams& p = *params;
  const int64_t count = p.count;
  for (int64_t chain = 0; chain < count; ++chain) {
    const int32_t* ids = p.ids + p.first_ids[chain];
    const int32_t* sampled = p.sampled + p.first_sampled[chain];
    int32_t accepted = 0;
    while (accepted < p.drafted[chain] && ids[accepted] == sampled[accepted]) ++accepted;
    p.roots[chain] = sampled[accepted];
    for (int64_t row = 0; row < p.place_rows; ++row) p.places[row * count + chain] += accepted;
  }
}

}  // namespace perigee
