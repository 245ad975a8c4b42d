import type { ConductorConfig, ConductorErrors } from "#cluster";
import { gapsOf, type LoadSample, type PoolResult, spreadOf } from "./pool-result.ts";

/** What a run knows at its end. */
export interface PoolEnd {
  readonly seed: number;
  readonly openBookings: number;
  readonly transferBytes: number;
  readonly prefillBusyMs: readonly number[];
  readonly decodeBusyMs: readonly number[];
  readonly errors: ConductorErrors;
}

/** Gathers what happens to requests. */
export class PoolStats {
  readonly #config: ConductorConfig;
  readonly #ttft: number[] = [];
  readonly #p99: number[] = [];
  readonly #tail: number[] = [];
  readonly #rejected: Record<string, number> = {};
  readonly #loads: LoadSample[] = [];
  #requests = 0;
  #completed = 0;
  #rejectedCount = 0;
  #sampledRejections = 0;
  #inputTokens = 0;
  #foundTokens = 0;
  #fetchedTokens = 0;
  #outputTokens = 0;
  #endMs = 0;

  constructor(config: ConductorConfig) {
    this.#config = config;
  }

  arrived(inputTokens: number): void {
    this.#requests++;
    this.#inputTokens += inputTokens;
  }

  rejected(reason: string): void {
    this.#rejectedCount++;
    this.#rejected[reason] = (this.#rejected[reason] ?? 0) + 1;
  }

  found(tokens: number): void {
    this.#foundTokens += tokens;
  }

  fetched(tokens: number): void {
    this.#fetchedTokens += tokens;
  }

  firstToken(ms: number): void {
    this.#ttft.push(ms);
  }

  /** `gaps`: between its tokens, in any order; null: it had one token. */
  completed(outputTokens: number, gaps: Float64Array | null, nowMs: number): void {
    this.#completed++;
    this.#outputTokens += outputTokens;
    this.#endMs = Math.max(this.#endMs, nowMs);
    if (gaps === null || gaps.length === 0) return;
    const { p99, tail } = gapsOf(gaps);
    this.#p99.push(p99);
    this.#tail.push(tail);
  }

  sample(atMs: number, queuesMs: readonly number[], decoding: readonly number[]): void {
    this.#loads.push({
      atMs,
      ...{ prefillQueueMs: mean(queuesMs), decoding: mean(decoding) },
      rejected: this.#rejectedCount - this.#sampledRejections,
    });
    this.#sampledRejections = this.#rejectedCount;
  }

  result(end: PoolEnd): PoolResult {
    const { policy, rejection, ttftDeadlineMs, tbtDeadlineMs } = this.#config;
    const { errors } = end;
    const seconds = Math.max(this.#endMs, 1) / 1000;
    const busy = (ms: readonly number[]) => mean(ms) / Math.max(this.#endMs, 1);
    return {
      ...{ policy, rejection, seed: end.seed, requests: this.#requests },
      completed: this.#completed,
      rejected: this.#rejected,
      ttftMs: spreadOf(this.#ttft),
      tbtP99Ms: spreadOf(this.#p99),
      tbtTailMs: spreadOf(this.#tail),
      ttftAttained: attained(this.#ttft, ttftDeadlineMs),
      tbtAttained: attained(this.#tail, tbtDeadlineMs),
      hitRate: this.#foundTokens / Math.max(this.#inputTokens, 1),
      fetchedTokens: this.#fetchedTokens,
      transferBytes: end.transferBytes,
      prefillBusy: busy(end.prefillBusyMs),
      decodeBusy: busy(end.decodeBusyMs),
      requestsPerSecond: this.#completed / seconds,
      outputTokensPerSecond: this.#outputTokens / seconds,
      endMs: this.#endMs,
      openBookings: end.openBookings,
      predictionErrors: {
        ttft: errors.ttft.meanError,
        prefill: errors.prefill.meanError,
        decode: errors.decode.meanError,
        transfer: errors.transfer.meanError,
      },
      loads: this.#loads,
    };
  }
}

function attained(values: readonly number[], deadlineMs: number | null): number | null {
  if (deadlineMs === null) return null;
  const within = values.filter((value) => value <= deadlineMs).length;
  return within / Math.max(values.length, 1);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
}
