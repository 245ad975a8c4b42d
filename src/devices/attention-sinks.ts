import { assert } from "#base";
import type { AttentionSinks, PagedAttentionInput } from "./ops.ts";

/** The sinks of an op, with the window that they take part in. */
export interface SinkWindow extends AttentionSinks {
  /** Last positions that a row sees beside the sinks: the window's length less theirs. */
  readonly recentTokens: number;
}

/** What every device checks about the sinks of `pagedAttention`; null: it has none. */
export function sinkWindowOf(input: PagedAttentionInput): SinkWindow | null {
  const { sinks, window, batch } = input;
  if (sinks === undefined) return null;
  assert(window !== undefined, "Cannot attend with sinks: a window is wanted, there is none");
  assert(
    Number.isInteger(sinks.tokens) && sinks.tokens > 0 && sinks.tokens < window,
    `Cannot attend with sinks: 1 to ${window - 1} tokens wanted, current value is ${sinks.tokens}`,
  );
  // A tree's rows stand at places that are not their positions; nobody drafts with sinks.
  assert(batch.treeMask === undefined, "Cannot attend with sinks: a tree mask is given, too");
  return { ...sinks, recentTokens: window - sinks.tokens };
}
