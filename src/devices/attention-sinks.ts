import { assert } from "#base";
import type { AttentionSinks, PagedAttentionInput } from "./ops.ts";

/** The sinks of an attention op, and the length of the window beside them. */
export interface SinkWindow extends AttentionSinks {
  /** Last positions that a row attends to beside the sinks: the window's length less the sinks'. */
  readonly recentTokens: number;
}

/** Checks the sinks of `pagedAttention`, the same on every device; null: it has none. */
export function sinkWindowOf(input: PagedAttentionInput): SinkWindow | null {
  const { sinks, window, batch } = input;
  if (sinks === undefined) return null;
  assert(window !== undefined, "Cannot attend with sinks: a window is wanted, there is none");
  assert(
    Number.isInteger(sinks.tokens) && sinks.tokens > 0 && sinks.tokens < window,
    `Cannot attend with sinks: 1 to ${window - 1} tokens wanted, current value is ${sinks.tokens}`,
  );
  // Rows of a tree have places that differ from their positions; drafting never uses sinks.
  assert(batch.treeMask === undefined, "Cannot attend with sinks: a tree mask is given, too");
  return { ...sinks, recentTokens: window - sinks.tokens };
}
