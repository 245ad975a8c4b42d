import type {
  Candidate,
  CandidateCost,
  RoutingChoice,
  RoutingPolicy,
  RoutingRequest,
} from "#cluster/protocol";
import type { Rng } from "./chance.ts";
import { type KvCost, kvCost, type TrafficOutlook } from "./kv-cost.ts";
import { chooseLeast } from "./load.ts";

/** The worker where the request costs all requests together least time. */
export class Kv implements RoutingPolicy {
  readonly name = "kv";
  readonly readsPrefixes = true;
  readonly #rng: Rng;
  readonly #outlook: () => TrafficOutlook;

  constructor(rng: Rng, outlook: () => TrafficOutlook) {
    this.#rng = rng;
    this.#outlook = outlook;
  }

  choose(request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    const requests = candidates.reduce((sum, { books }) => sum + books.requests, 0);
    const outlook = { ...this.#outlook(), requestsPerWorker: requests / candidates.length };
    const costs = candidates.map((candidate) => kvCost(request, candidate, outlook));
    // What every choice takes says nothing about them: long outputs would make all of them equal.
    const common = Math.min(...costs.map(({ terms }) => terms.decode));
    const differing = costs.map(({ cost }) => cost - common);
    const { chosen, tied } = chooseLeast(differing, candidates, this.#rng);
    return {
      chosen,
      costs: candidates.map(({ info }, at) => rowOf(info.id, costs[at])),
      reason: tied ? "tie" : reasonOf(costs, chosen),
    };
  }
}

function rowOf(workerId: string, cost: KvCost | undefined): CandidateCost {
  return { workerId, cost: cost?.cost ?? 0, terms: { ...cost?.terms } };
}

/** `prefix`: no other has more; `spill`: one has more, and is busier; `load`: all have the same. */
function reasonOf(costs: readonly KvCost[], chosen: number): string {
  const uncached = costs.map(({ plan }) => plan.uncachedTokens);
  const least = Math.min(...uncached);
  if (least === Math.max(...uncached)) return "load";
  return (uncached[chosen] ?? 0) > least ? "spill" : "prefix";
}
