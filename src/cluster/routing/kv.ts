import type {
  Candidate,
  CandidateCost,
  RoutingChoice,
  RoutingPolicy,
  RoutingRequest,
} from "#cluster/protocol";
import type { Rng } from "./chance.ts";
import { type KvTerms, kvTerms, type TrafficOutlook } from "./kv-cost.ts";
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
    const outlook = this.#outlook();
    const terms = candidates.map((candidate) => kvTerms(request, candidate, outlook));
    const costs = terms.map(costOf);
    const { chosen, tied } = chooseLeast(costs, candidates, this.#rng);
    return {
      chosen,
      costs: candidates.map(({ info }, at) => costRow(info.id, costs[at] ?? 0, terms[at])),
      reason: tied ? "tie" : reasonOf(terms, chosen),
    };
  }
}

function costOf(terms: KvTerms): number {
  const { queue, compute, load, decode, stall, behind, memory } = terms;
  return queue + compute + load + decode + stall + behind + memory;
}

function costRow(workerId: string, cost: number, terms: KvTerms | undefined): CandidateCost {
  if (terms === undefined) return { workerId, cost, terms: {} };
  const { plan: _plan, ...times } = terms;
  return { workerId, cost, terms: times };
}

/** `prefix`: no other has more; `spill`: one has more, and is busier; `load`: all have the same. */
function reasonOf(terms: readonly KvTerms[], chosen: number): string {
  const uncached = terms.map(({ plan }) => plan.uncachedTokens);
  const least = Math.min(...uncached);
  if (least === Math.max(...uncached)) return "load";
  return (uncached[chosen] ?? 0) > least ? "spill" : "prefix";
}
