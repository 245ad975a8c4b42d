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
  /** Of all gaps. */
  readonly tbtMeanMs: number;
  /** Of all requests, those whose longest 10 % of gaps have a mean of so many ms or less. */
  readonly tbtWithin: Readonly<Record<string, number>>;
  /** From shortest to longest, in steps of 1 % of the requests. */
  readonly curves: {
    readonly ttftMs: readonly number[];
    readonly tbtP99Ms: readonly number[];
    readonly tbtTailMs: readonly number[];
  };
  /** Of completed requests, those within the deadlines; null: no deadline. */
  readonly ttftAttained: number | null;
  readonly tbtAttained: number | null;
  /** Of all requests, those that were completed within both deadlines, as far as there are any. */
  readonly goodput: number;
  /** Prompt tokens that were found or fetched, of all. */
  readonly hitRate: number;
  /** Of them, those that were fetched from another node. */
  readonly fetchedTokens: number;
  /** Mean ms of a fetch; 0: there was none. */
  readonly fetchMs: number;
  readonly transferBytes: number;
  /** Busy time of all prefill nodes together. */
  readonly prefillMs: number;
  /** Busy time of a mean node, of the time to the last token. */
  readonly prefillBusy: number;
  readonly decodeBusy: number;
  readonly requestsPerSecond: number;
  readonly outputTokensPerSecond: number;
  readonly endMs: number;
  /** Steps, transfers and arrivals that were simulated. */
  readonly events: number;
  /** What the conductor still counts at the end: nothing. */
  readonly openBookings: number;
  /** Mean relative errors of predictions. */
  readonly predictionErrors: Readonly<Record<string, number>>;
  readonly loads: readonly LoadSample[];
  /** Nodes that changed pools, in order. */
  readonly roleChanges: readonly SimRoleChange[];
}

/** A node that changed pools. */
export interface SimRoleChange {
  readonly atMs: number;
  readonly node: string;
  readonly role: "prefill" | "decode";
}

/** Both pools at a time. */
export interface LoadSample {
  readonly atMs: number;
  /** Of mean nodes: ms of work that waits, and requests in decode. */
  readonly prefillQueueMs: number;
  readonly decoding: number;
  /** Since the sample before: requests rejected, and prompt tokens found, of those begun. */
  readonly rejected: number;
  readonly hitRate: number;
  /** Nodes that hold the blocks of `HOT_RANKS`. */
  readonly replicas: readonly number[];
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

const CURVE_STEPS = 100;

/** Its value at each percent, the least and the most included; empty where there is none. */
export function curveOf(values: readonly number[]): readonly number[] {
  if (values.length === 0) return [];
  const sorted = Float64Array.from(values).sort();
  return Array.from({ length: CURVE_STEPS + 1 }, (_, step) => {
    return sorted[Math.round((step / CURVE_STEPS) * (sorted.length - 1))] ?? 0;
  });
}

/** Of one request's gaps between tokens. */
export interface GapSummary {
  readonly p99: number;
  readonly tail: number;
  readonly sum: number;
}

/** The 99th percentile, and the mean of the longest tenth, at least one. */
export function gapsOf(gaps: Float64Array): GapSummary {
  const sorted = gaps.sort();
  const longest = Math.max(1, Math.round(sorted.length / 10));
  const from = sorted.length - longest;
  let before = 0;
  for (let at = 0; at < from; at++) before += sorted[at] ?? 0;
  let tail = 0;
  for (let at = from; at < sorted.length; at++) tail += sorted[at] ?? 0;
  const p99 = sorted[Math.min(Math.floor(0.99 * sorted.length), sorted.length - 1)] ?? 0;
  return { p99, tail: tail / longest, sum: before + tail };
}
