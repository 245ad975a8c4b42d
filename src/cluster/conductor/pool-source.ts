import type { Candidate, RoutingRequest } from "#cluster/protocol";
import { type KvSourceChoice, prefixPlan } from "#cluster/routing";

/** Shorter uncached ends of prompts are always computed where they decode. */
const INLINE_TOKENS_ALWAYS = 64;

/**
 * Who computes a prompt for the worker that decodes; null: that worker itself, since it is the
 * same, cannot be given anything, or has nearly all of it.
 */
export function sourceOf(
  request: RoutingRequest,
  decode: Candidate,
  prefill: Candidate,
): KvSourceChoice | null {
  const { info: worker, blockTokens } = prefill;
  const address = worker.transfer;
  if (worker.id === decode.info.id || address === undefined) return null;
  if (prefixPlan(request, decode).uncachedTokens <= INLINE_TOKENS_ALWAYS) return null;
  const { uncachedTokens } = prefixPlan(request, prefill);
  const leftTokens = Math.min(blockTokens, request.promptTokens);
  return { worker, address, compute: true, blockTokens, uncachedTokens, leftTokens };
}
