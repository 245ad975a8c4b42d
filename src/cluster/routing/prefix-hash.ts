import type { Candidate, RoutingChoice, RoutingPolicy, RoutingRequest } from "#cluster/protocol";
import { RingChoice } from "./ring-choice.ts";

/** Requests over the mean that a worker may have: Mirrokni's example, 25 %. */
const BOUND = 1.25;

/** Prompts with the same beginning go to the same worker while its load allows; needs no index. */
export class PrefixHash implements RoutingPolicy {
  readonly name = "prefix-hash";
  readonly readsPrefixes = false;
  readonly #ring = new RingChoice(BOUND);

  choose(request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    const { chosen, preferred } = this.#ring.choose(request.prefixHash, candidates);
    return { chosen, costs: [], reason: preferred ? "prefix" : "spill" };
  }
}
