import type { Candidate, RoutingChoice, RoutingPolicy, RoutingRequest } from "#cluster/protocol";
import type { Rng } from "./chance.ts";
import { chooseLeast, loadMs, queueMs } from "./load.ts";

/** The worker whose load is least, in time; caches are not asked. */
export class LeastLoaded implements RoutingPolicy {
  readonly name = "least-loaded";
  readonly readsPrefixes = false;
  readonly #rng: Rng;

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  choose(_request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    const loads = candidates.map(loadMs);
    const { chosen, tied } = chooseLeast(loads, candidates, this.#rng);
    const costs = candidates.map((candidate, at) => {
      const cost = loads[at] ?? 0;
      const queue = queueMs(candidate);
      return { workerId: candidate.info.id, cost, terms: { queue, decode: cost - queue } };
    });
    return { chosen, costs, reason: tied ? "tie" : "load" };
  }
}
