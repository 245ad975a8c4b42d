import type { Candidate, RoutingChoice, RoutingPolicy, RoutingRequest } from "#cluster/protocol";
import type { Rng } from "./chance.ts";
import { hashText } from "./hash-ring.ts";
import { LeastLoaded } from "./least-loaded.ts";
import { RingChoice } from "./ring-choice.ts";

/** A session moves when its worker has twice the mean: a move computes the whole session anew. */
const BOUND = 2;

/** A session stays with its worker; requests without one go to the least loaded. */
export class Session implements RoutingPolicy {
  readonly name = "session";
  readonly readsPrefixes = false;
  readonly #ring = new RingChoice(BOUND);
  readonly #leastLoaded: LeastLoaded;

  constructor(rng: Rng) {
    this.#leastLoaded = new LeastLoaded(rng);
  }

  choose(request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    if (request.session === null) return this.#leastLoaded.choose(request, candidates);
    const { chosen, preferred } = this.#ring.choose(hashText(request.session), candidates);
    return { chosen, costs: [], reason: preferred ? "session" : "spill" };
  }
}
