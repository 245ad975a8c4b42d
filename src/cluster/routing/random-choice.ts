import type { Candidate, RoutingChoice, RoutingPolicy, RoutingRequest } from "#cluster/protocol";
import { drawIndex, type Rng } from "./chance.ts";

/** Any worker, each equally likely. */
export class RandomChoice implements RoutingPolicy {
  readonly name = "random";
  readonly readsPrefixes = false;
  readonly #rng: Rng;

  constructor(rng: Rng) {
    this.#rng = rng;
  }

  choose(_request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    return { chosen: drawIndex(this.#rng, candidates.length), costs: [], reason: "chance" };
  }
}
