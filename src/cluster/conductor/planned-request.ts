/** A request of a live fleet as its conductor is asked about it. */
import type { PlannedRequest } from "#cluster/routing";
import type { ConductorConfig } from "./conductor-config.ts";
import type { ConductorRequest } from "./decision.ts";
import type { GroupSurvey } from "./fleet-survey.ts";

/** Predictions of fewer measurements reject nothing: what is believed at first may be far off. */
export const SETTLED_SAMPLES = 8;
/** Where nothing runs and nothing was measured for so long, one request tries it. */
const STALE_MS = 10_000;

export interface FleetSettings {
  readonly config: ConductorConfig;
  readonly usesPools: boolean;
  readonly nowMs: number;
}

export function conductorRequest(
  request: PlannedRequest,
  { group, barred, hasPools }: GroupSurvey,
  { config, usesPools, nowMs }: FleetSettings,
): ConductorRequest {
  const { conductor } = group;
  const { outputTokens, isBatch = false } = request;
  const isStale = group.bookings.size === 0 && nowMs - group.measuredMs > STALE_MS;
  const { ttftMs, tbtMs } = deadlinesOf(request, config);
  const [computes, decodes] = hasPools && usesPools ? ["prefill", "decode"] : ["both", "both"];
  const knowsPrompts = conductor.prefillEstimator(computes).samples >= SETTLED_SAMPLES;
  const knowsSteps = conductor.decodeEstimator(decodes).samples >= SETTLED_SAMPLES;
  return {
    ...{ id: request.id ?? "", promptTokens: request.promptTokens, barred },
    outputTokens:
      outputTokens === null ? null : Math.min(outputTokens, conductor.usualOutputTokens),
    priority: isBatch ? "batch" : "normal",
    ttftDeadlineMs: knowsPrompts ? ttftMs : null,
    tbtDeadlineMs: knowsSteps ? tbtMs : null,
    waitedMs: Math.max(nowMs - (request.arrivedMs ?? nowMs), 0),
    // One that was begun is not thrown away, and work that fills what is free has waited here.
    mustTake: request.excluded.size > 0 || isStale || isBatch,
  };
}

/** Its own, else the fleet's; null: none. */
export function deadlinesOf({ deadlines = {} }: PlannedRequest, config: ConductorConfig) {
  const { ttftDeadlineMs, tbtDeadlineMs } = config;
  const { ttftMs = ttftDeadlineMs, tbtMs = tbtDeadlineMs } = deadlines;
  return { ttftMs, tbtMs };
}
