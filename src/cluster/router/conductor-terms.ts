/** The conductor's part of an explanation, in snake_case. */
import { decisionLine, type GroupExplanation } from "#cluster/conductor";

export function conductorJson(found: GroupExplanation | null): unknown {
  if (found === null) return null;
  const { decision, prefill, decode, deadlines, idOf } = found;
  return {
    decision: JSON.parse(decisionLine(decision, idOf)),
    /** The request's own, else the router's; null: none. They hold once speeds are known. */
    deadlines_ms: { ttft: deadlines.ttftMs, tbt: deadlines.tbtMs },
    /** Those that compute prompts: all terms in ms, of which the least sum gets it. */
    prefill: prefill.map((terms) => ({
      id: idOf(terms.instance),
      queue_ms: terms.queueMs,
      transfer_ms: terms.transferMs,
      prefill_ms: terms.prefillMs,
      ttft_ms: terms.ttftMs,
      own_prefix_tokens: terms.ownPrefixTokens,
      used_prefix_tokens: terms.usedPrefixTokens,
    })),
    /** Those that decode, with the request. */
    decode: decode.map(({ instance, requests, tbtMs, hasRoom }) => ({
      ...{ id: idOf(instance), requests, tbt_ms: tbtMs, has_room: hasRoom },
    })),
  };
}
