/** Decisions as JSON lines, with the names of instances. */
import type { Decision, InstanceNumber, PrefillTerms } from "./decision.ts";

/** One line without its end. `idOf`: an instance's id; null: it left. `more`: further fields. */
export function decisionLine(
  decision: Decision,
  idOf: (instance: InstanceNumber) => string | null,
  more: Readonly<Record<string, unknown>> = {},
): string {
  const nameOf = (instance: InstanceNumber | null) => (instance === null ? null : idOf(instance));
  const { chosen, loads } = decision;
  return JSON.stringify({
    ...{ at_ms: rounded(decision.atMs), request: decision.request, decision: decision.type },
    ...{ policy: decision.policy, priority: decision.priority },
    prompt_tokens: decision.promptTokens,
    best_prefix_tokens: decision.bestPrefixTokens,
    best_prefix_at: nameOf(decision.bestPrefixAt),
    prefill: nameOf(chosen?.instance ?? null),
    decode: nameOf(decision.decode),
    terms_ms: chosen === null ? null : termsOf(chosen),
    own_prefix_tokens: chosen?.ownPrefixTokens ?? 0,
    used_prefix_tokens: chosen?.usedPrefixTokens ?? 0,
    predicted_ttft_ms: rounded(chosen?.ttftMs ?? 0),
    predicted_tbt_ms: rounded(decision.predictedTbtMs),
    prefill_load: loads.prefill === null ? null : rounded(loads.prefill),
    decode_load: loads.decode === null ? null : rounded(loads.decode),
    ...(decision.type === "accepted"
      ? { transfer: transferOf(decision, nameOf) }
      : { reason: decision.reason, retry_after_ms: decision.retryAfterMs }),
    ...more,
  });
}

function transferOf(
  { transfer }: Extract<Decision, { type: "accepted" }>,
  nameOf: (instance: InstanceNumber) => string | null,
): object | null {
  if (transfer === null) return null;
  const { from, startTokens, endTokens } = transfer;
  return { from: nameOf(from), start_tokens: startTokens, end_tokens: endTokens };
}

function termsOf({ queueMs, transferMs, prefillMs }: PrefillTerms): object {
  return {
    queue: rounded(queueMs),
    transfer: rounded(transferMs),
    prefill: rounded(prefillMs),
  };
}

/** Thousandths are enough. */
function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
