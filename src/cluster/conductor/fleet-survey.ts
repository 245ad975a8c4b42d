import type { Candidate, RoutingRequest } from "#cluster/protocol";
import { prefixPlan } from "#cluster/routing";
import type { HeldPrefix, InstanceNumber } from "./decision.ts";
import type { PoolGroup } from "./pool-group.ts";

/** What one group has for a request. */
export interface GroupSurvey {
  readonly group: PoolGroup;
  readonly held: readonly HeldPrefix[];
  /** Members that may not have it; null: all may. */
  readonly barred: ReadonlySet<InstanceNumber> | null;
  /** A worker that computes prompts for others, and one that decodes, may have it. */
  readonly hasPools: boolean;
}

interface Counts {
  readonly held: HeldPrefix[];
  readonly eligible: Set<InstanceNumber>;
  prefills: number;
  decodes: number;
}

/** Groups of the candidates, in their order. */
export function surveyOf(
  request: RoutingRequest,
  candidates: readonly Candidate[],
  groupAt: (workerId: string) => PoolGroup | undefined,
): readonly GroupSurvey[] {
  const found = new Map<PoolGroup, Counts>();
  for (const candidate of candidates) {
    const { id, role = "both" } = candidate.info;
    const group = groupAt(id);
    const number = group?.numbers.get(id);
    if (group === undefined || number === undefined) continue;
    const counts = found.get(group) ?? { held: [], eligible: new Set(), prefills: 0, decodes: 0 };
    found.set(group, counts);
    counts.eligible.add(number);
    if (role === "prefill") counts.prefills++;
    else counts.decodes++;
    if (candidate.match === null) continue;
    const tokens = request.promptTokens - prefixPlan(request, candidate).uncachedTokens;
    if (tokens > 0) counts.held.push({ instance: number, tokens });
  }
  return [...found].map(([group, { held, eligible, prefills, decodes }]) => ({
    ...{ group, held, hasPools: group.sharesBlocks && prefills > 0 && decodes > 0 },
    barred: eligible.size === group.numbers.size ? null : barredOf(group, eligible),
  }));
}

function barredOf(group: PoolGroup, eligible: ReadonlySet<InstanceNumber>): Set<InstanceNumber> {
  const barred = new Set<InstanceNumber>();
  for (const number of group.numbers.values()) if (!eligible.has(number)) barred.add(number);
  return barred;
}
