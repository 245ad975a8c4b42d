/** What became of one request of a simulated fleet. */
export interface PoolRequestRow {
  /** Its place in the trace, from 0. */
  readonly request: number;
  /** On the simulated clock. */
  readonly arrivalMs: number;
  readonly promptTokens: number;
  /** Prompt tokens that its node had when it computed the prompt; null: it did not. */
  readonly cachedTokens: number | null;
  /** Tokens that were made; null: the request was rejected. */
  readonly outputTokens: number | null;
  /** From arrival to the first token; null: there was none. */
  readonly ttftMs: number | null;
  /** Mean and longest gap between its tokens; null: it had fewer than two. */
  readonly tbtMeanMs: number | null;
  readonly tbtMaxMs: number | null;
  /** The node that computes the prompt, and the one that decodes; null: none was chosen. */
  readonly prefill: string | null;
  readonly decode: string | null;
  /** `accepted`, or the reason of the rejection. */
  readonly decision: string;
}

/** Mean and longest of a request's gaps; nulls where there is none. */
export function gapsOf(gaps: Float64Array | null): Pick<PoolRequestRow, "tbtMeanMs" | "tbtMaxMs"> {
  if (gaps === null || gaps.length === 0) return { tbtMeanMs: null, tbtMaxMs: null };
  let [sum, most] = [0, 0];
  for (const gap of gaps) {
    sum += gap;
    most = Math.max(most, gap);
  }
  return { tbtMeanMs: sum / gaps.length, tbtMaxMs: most };
}
