import type { CeilingStats, LostTokens } from "#cluster";
import type { SimOutcome } from "../sim-worker.ts";

/** What a fleet did with its traffic. Times in ms, rates 0 to 1. */
export interface FleetResult {
  readonly policy: string;
  readonly requests: number;
  /** Cached tokens of all prompt tokens. */
  readonly hitRate: number;
  readonly ttftMs: Quantiles;
  /** Of each request's mean time between tokens. */
  readonly tbtMs: Quantiles;
  /** From a request's arrival to its last token. */
  readonly totalMs: Quantiles;
  /** Most busy time of a worker over the mean. */
  readonly imbalance: number;
  /** Busy time of the mean worker, of the time from the first arrival to the last. */
  readonly busy: number;
  /** Of the last token, from the start. */
  readonly endMs: number;
  /** Requests that the router still counts when all have ended: none. */
  readonly openReservations: number;
  /** Tokens that one cache without end would have had, as the router counts them, by cause. */
  readonly lost: LostTokens;
  /** Choices by the policy's word for them. */
  readonly reasons: Readonly<Record<string, number>>;
}

export interface Quantiles {
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
}

/** Gathers outcomes as they come. */
export class FleetStats {
  readonly #ttft: number[] = [];
  readonly #tbt: number[] = [];
  readonly #total: number[] = [];
  readonly #reasons: Record<string, number> = {};
  #promptTokens = 0;
  #cachedTokens = 0;

  chosen(reason: string): void {
    this.#reasons[reason] = (this.#reasons[reason] ?? 0) + 1;
  }

  ended({
    request,
    submittedMs,
    firstTokenMs,
    endMs,
    cachedTokens,
    outputTokens,
  }: SimOutcome): void {
    this.#promptTokens += request.promptTokenIds.length;
    this.#cachedTokens += cachedTokens;
    this.#total.push(endMs - submittedMs);
    if (firstTokenMs === null) return;
    this.#ttft.push(firstTokenMs - submittedMs);
    if (outputTokens > 1) this.#tbt.push((endMs - firstTokenMs) / (outputTokens - 1));
  }

  result(policy: string, times: FleetTimes): FleetResult {
    const { busyMs, lastArrivalMs, endMs, openReservations, ceiling } = times;
    const mean = busyMs.reduce((sum, ms) => sum + ms, 0) / Math.max(busyMs.length, 1);
    return {
      policy,
      requests: this.#total.length,
      hitRate: this.#cachedTokens / Math.max(this.#promptTokens, 1),
      ttftMs: quantilesOf(this.#ttft),
      tbtMs: quantilesOf(this.#tbt),
      totalMs: quantilesOf(this.#total),
      imbalance: mean > 0 ? Math.max(...busyMs) / mean : 1,
      busy: mean / Math.max(lastArrivalMs, 1),
      endMs,
      openReservations,
      lost: ceiling.lost,
      reasons: this.#reasons,
    };
  }
}

export interface FleetTimes {
  readonly busyMs: readonly number[];
  readonly lastArrivalMs: number;
  readonly endMs: number;
  readonly openReservations: number;
  readonly ceiling: CeilingStats;
}

function quantilesOf(values: readonly number[]): Quantiles {
  const sorted = Float64Array.from(values).sort();
  const at = (share: number) =>
    sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)];
  const sum = sorted.reduce((total, value) => total + value, 0);
  return {
    mean: sum / Math.max(sorted.length, 1),
    p50: at(0.5) ?? 0,
    p90: at(0.9) ?? 0,
    p99: at(0.99) ?? 0,
  };
}
