/** What a fleet with pools did with a trace. Times in ms. */

export interface TimeSpread {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
}

export interface PoolResult {
  readonly policy: string;
  readonly rejection: string;
  readonly seed: number;
  readonly requests: number;
  readonly completed: number;
  /** By reason; `late` ones were rejected when their prompts had been computed. */
  readonly rejected: Readonly<Record<string, number>>;
  /** Of requests that were taken. */
  readonly ttftMs: TimeSpread;
  /** Of each request: the 99th percentile of its gaps. */
  readonly tbtP99Ms: TimeSpread;
  /** Of each request: the mean of its longest 10 % of gaps, as the paper has it. */
  readonly tbtTailMs: TimeSpread;
  /** Of completed requests, those within the deadlines; null: no deadline. */
  readonly ttftAttained: number | null;
  readonly tbtAttained: number | null;
  /** Prompt tokens that were found or fetched, of all. */
  readonly hitRate: number;
  /** Of them, those that were fetched from another node. */
  readonly fetchedTokens: number;
  readonly transferBytes: number;
  /** Busy time of a mean node, of the time to the last token. */
  readonly prefillBusy: number;
  readonly decodeBusy: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly endMs: number;
  /** What the conductor still counts at the end: nothing. */
  readonly openBookings: number;
  /** Mean relative errors of predictions. */
  readonly predictionErrors: Readonly<Record<string, number>>;
  readonly loads: readonly LoadSample[];
}

/** Both pools at a time. */
export interface LoadSample {
  readonly atMs: number;
  /** Of mean nodes: ms of work that waits, and requests in decode. */
  readonly prefillQueueMs: number;
  readonly decoding: number;
  /** Rejected since the sample before. */
  readonly rejected: number;
}

/** Of any order; all 0 where there is none. */
export function spreadOf(values: readonly number[]): TimeSpread {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) =>
    sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)] ?? 0;
  let sum = 0;
  for (const value of sorted) sum += value;
  return {
    mean: sum / Math.max(sorted.length, 1),
    ...{ p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) },
  };
}

/** Of one request's gaps between tokens. */
export interface GapSummary {
  readonly p99: number;
  readonly tail: number;
}

/** The 99th percentile, and the mean of the longest tenth, at least one. */
export function gapsOf(gaps: Float64Array): GapSummary {
  const sorted = gaps.sort();
  const longest = Math.max(1, Math.round(sorted.length / 10));
  let sum = 0;
  for (let at = sorted.length - longest; at < sorted.length; at++) sum += sorted[at] ?? 0;
  const p99 = sorted[Math.min(Math.floor(0.99 * sorted.length), sorted.length - 1)] ?? 0;
  return { p99, tail: sum / longest };
}
