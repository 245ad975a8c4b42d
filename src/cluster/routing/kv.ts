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
    const outlook = { ...this.#outlook(), requestsPerWorker: usualRequests(candidates) };
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

/**
 * Requests of a usual candidate: the mean, to which none adds more than twice the median and one.
 * The line of one worker that has what all want would make others' device time dear, though they
 * are idle.
 */
function usualRequests(candidates: readonly Candidate[]): number {
  const requests = candidates.map(({ books }) => books.requests).sort((a, b) => a - b);
  const most = 2 * (requests[Math.floor(requests.length / 2)] ?? 0) + 1;
  return requests.reduce((sum, count) => sum + Math.min(count, most), 0) / requests.length;
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
