import type { Candidate, RoutingChoice, RoutingPolicy, RoutingRequest } from "#cluster/protocol";

/**
 * Each worker in turn, by the order of ids: the one after the last that was chosen, so that
 * workers that come, go or are left out for one request disturb the turns of no other.
 */
export class RoundRobin implements RoutingPolicy {
  readonly name = "round-robin";
  readonly readsPrefixes = false;
  #last = "";

  choose(_request: RoutingRequest, candidates: readonly Candidate[]): RoutingChoice {
    let first = 0;
    let next = -1;
    candidates.forEach(({ info }, at) => {
      if (info.id < idAt(candidates, first)) first = at;
      if (info.id <= this.#last) return;
      if (next < 0 || info.id < idAt(candidates, next)) next = at;
    });
    const chosen = next < 0 ? first : next;
    this.#last = idAt(candidates, chosen);
    return { chosen, costs: [], reason: "turn" };
  }
}

function idAt(candidates: readonly Candidate[], at: number): string {
  return candidates[at]?.info.id ?? "";
}
