import type { Candidate, RoutingChoice, RoutingPolicy, RoutingRequest } from "#cluster/protocol";
import { drawIndex, type Rng } from "./chance.ts";
import { loadMs } from "./load.ts";

/**
 * The less loaded of two that chance picks: needs no view of the whole fleet, and hardly herds.
 * Source: M. Mitzenmacher 2001, "The power of two choices in randomized load balancing".
 */
export class PowerOfTwo implements RoutingPolicy {
  readonly name = "power-of-two";
  readonly readsPrefixes = false;
  readonly #rng: Rng;

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  choose(_request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    const first = drawIndex(this.#rng, candidates.length);
    if (candidates.length === 1) return { chosen: first, costs: [], reason: "load" };
    const step = 1 + drawIndex(this.#rng, candidates.length - 1);
    const second = (first + step) % candidates.length;
    const [a, b] = [candidates[first], candidates[second]];
    const better = a !== undefined && b !== undefined && loadMs(b) < loadMs(a) ? second : first;
    return { chosen: better, costs: [], reason: "load" };
  }
}
