import type { Candidate, RoutingRequest } from "#cluster/protocol";
import { type KvSourceChoice, prefixPlan } from "#cluster/routing";

/** Without a deadline between tokens, shorter uncached ends are computed where they decode. */
const INLINE_TOKENS = 64;
/** With one, longer ones are not: they might take several steps. */
const INLINE_TOKENS_MAX = 1024;

/** The workers of one decision. */
export interface SourceWorkers {
  readonly decode: Candidate;
  readonly prefill: Candidate;
  /** Who gives the prefill worker more of the prompt than it has; null: no worker. */
  readonly holder: Candidate | null;
}

/** What computing a prompt in the steps of the worker that decodes would come to. */
export interface InlineCost {
  /** The shortest deadline between tokens of it and of those that run; null: none. */
  readonly tbtMs: () => number | null;
  /** A step of that worker with the request in it, and its uncached end; null: not measured. */
  readonly stepMs: (uncachedTokens: number) => number | null;
  /** Predicted to the first token by way of the prefill worker. */
  readonly apartMs: number;
}

/**
 * Who computes a prompt for the worker that decodes; null: that worker itself, since it is the
 * same, cannot be given anything, or can do so in one step without breaking a deadline.
 */
export function sourceOf(
  request: RoutingRequest,
  { decode, prefill, holder }: SourceWorkers,
  cost: InlineCost,
): KvSourceChoice | null {
  const { info: worker, blockTokens } = prefill;
  const address = worker.transfer;
  if (worker.id === decode.info.id || address === undefined) return null;
  if (isInline(prefixPlan(request, decode).uncachedTokens, blockTokens, cost)) return null;
  const { uncachedTokens } = prefixPlan(request, prefill);
  const leftTokens = Math.min(blockTokens, request.promptTokens);
  const prefix = holder?.info.transfer ?? null;
  const found = holder === null || prefix === null ? null : prefixPlan(request, holder);
  const given = { worker, address, compute: true, blockTokens, leftTokens, prefix };
  return { ...given, uncachedTokens: Math.min(uncachedTokens, found?.uncachedTokens ?? Infinity) };
}

function isInline(uncachedTokens: number, blockTokens: number, cost: InlineCost): boolean {
  if (uncachedTokens > INLINE_TOKENS_MAX) return false;
  // Another worker would leave it as much.
  if (uncachedTokens <= blockTokens) return true;
  const tbtMs = cost.tbtMs();
  const stepMs = tbtMs === null ? null : cost.stepMs(uncachedTokens);
  if (tbtMs === null || stepMs === null) return uncachedTokens <= INLINE_TOKENS;
  if (stepMs > tbtMs) return false;
  return uncachedTokens <= INLINE_TOKENS || stepMs <= cost.apartMs;
}
