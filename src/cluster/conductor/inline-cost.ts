import type { PlannedRequest } from "#cluster/routing";
import type { ConductorConfig } from "./conductor-config.ts";
import type { Accepted } from "./decision.ts";
import type { GroupSurvey } from "./fleet-survey.ts";
import { deadlinesOf, SETTLED_SAMPLES } from "./planned-request.ts";
import type { InlineCost } from "./pool-source.ts";

/** By the estimators of both pools: a token's prompt work costs a decoding step as much. */
export function inlineCost(
  request: PlannedRequest,
  { group }: GroupSurvey,
  { decision, config }: { readonly decision: Accepted; readonly config: ConductorConfig },
): InlineCost {
  const { conductor } = group;
  return {
    apartMs: decision.chosen.ttftMs,
    tbtMs: () => {
      const own = request.isBatch === true ? null : deadlinesOf(request, config).tbtMs;
      const least = Math.min(own ?? Infinity, group.shortestTbtMs() ?? Infinity);
      return Number.isFinite(least) ? least : null;
    },
    stepMs: (uncachedTokens) => {
      const prompts = conductor.prefillEstimator("prefill");
      const isKnown =
        prompts.samples >= SETTLED_SAMPLES &&
        conductor.decodeEstimator("decode").samples >= SETTLED_SAMPLES;
      if (!isKnown) return null;
      const { promptTokens } = request;
      const [, perThousand, perMillion] = prompts.coefficients;
      const prefix = promptTokens - uncachedTokens;
      const pairs = promptTokens * promptTokens - prefix * prefix;
      const promptMs = (perThousand * uncachedTokens) / 1e3 + (perMillion * pairs) / 1e6;
      return decision.predictedTbtMs + promptMs;
    },
  };
}
