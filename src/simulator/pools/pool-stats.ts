import type { ConductorConfig, ConductorErrors } from "#cluster";
import {
  curveOf,
  gapsOf,
  type LoadSample,
  type PoolResult,
  type SimRoleChange,
  spreadOf,
} from "./pool-result.ts";

/** What a run knows at its end. */
export interface PoolEnd {
  readonly seed: number;
  readonly openBookings: number;
  readonly events: number;
  readonly transferBytes: number;
  readonly prefillBusyMs: readonly number[];
  readonly decodeBusyMs: readonly number[];
  readonly errors: ConductorErrors;
  readonly roleChanges: readonly SimRoleChange[];
}

export interface CompletedRequest {
  readonly outputTokens: number;
  readonly ttftMs: number;
  /** Between its tokens, in any order; null: it had one token. */
  readonly gaps: Float64Array | null;
  readonly nowMs: number;
}

/** Both pools at a time. */
export interface SampledNodes {
  readonly atMs: number;
  /** Of each prefill node: ms of work that waits. */
  readonly queuesMs: readonly number[];
  /** Of each decode node: requests that decode or wait for room. */
  readonly decoding: readonly number[];
  readonly replicas: readonly number[];
}

/** The paper's deadlines between tokens, in ms. */
const TBT_DEADLINES = [100, 200, 300];

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
  #gaps = 0;
  #gapsMs = 0;
  #fetches = 0;
  #fetchMs = 0;
  #good = 0;
  /** Of the prompts that began since the last sample. */
  #sampledTokens = { found: 0, input: 0 };

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

  /** A prompt begins, of which so many tokens are there. */
  found(tokens: number, inputTokens: number): void {
    this.#foundTokens += tokens;
    this.#sampledTokens.found += tokens;
    this.#sampledTokens.input += inputTokens;
  }

  fetched(tokens: number, ms: number): void {
    this.#fetchedTokens += tokens;
    this.#fetches++;
    this.#fetchMs += ms;
  }

  firstToken(ms: number): void {
    this.#ttft.push(ms);
  }

  completed({ outputTokens, ttftMs, gaps, nowMs }: CompletedRequest): void {
    const { ttftDeadlineMs, tbtDeadlineMs } = this.#config;
    this.#completed++;
    this.#outputTokens += outputTokens;
    this.#endMs = Math.max(this.#endMs, nowMs);
    let tailMs = 0;
    if (gaps !== null && gaps.length > 0) {
      const { p99, tail, sum } = gapsOf(gaps);
      this.#p99.push(p99);
      this.#tail.push(tail);
      this.#gaps += gaps.length;
      this.#gapsMs += sum;
      tailMs = tail;
    }
    if (within(ttftMs, ttftDeadlineMs) && within(tailMs, tbtDeadlineMs)) this.#good++;
  }

  sample({ atMs, queuesMs, decoding, replicas }: SampledNodes): void {
    const { found, input } = this.#sampledTokens;
    this.#loads.push({
      atMs,
      ...{ prefillQueueMs: mean(queuesMs), decoding: mean(decoding) },
      rejected: this.#rejectedCount - this.#sampledRejections,
      hitRate: found / Math.max(input, 1),
      replicas,
    });
    this.#sampledRejections = this.#rejectedCount;
    this.#sampledTokens = { found: 0, input: 0 };
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
      tbtMeanMs: this.#gapsMs / Math.max(this.#gaps, 1),
      tbtWithin: this.#tbtWithin(),
      curves: {
        ttftMs: curveOf(this.#ttft),
        tbtP99Ms: curveOf(this.#p99),
        tbtTailMs: curveOf(this.#tail),
      },
      goodput: this.#good / Math.max(this.#requests, 1),
      ttftAttained: attained(this.#ttft, ttftDeadlineMs),
      tbtAttained: attained(this.#tail, tbtDeadlineMs),
      hitRate: this.#foundTokens / Math.max(this.#inputTokens, 1),
      fetchedTokens: this.#fetchedTokens,
      fetchMs: this.#fetchMs / Math.max(this.#fetches, 1),
      transferBytes: end.transferBytes,
      prefillMs: end.prefillBusyMs.reduce((sum, ms) => sum + ms, 0),
      prefillBusy: busy(end.prefillBusyMs),
      decodeBusy: busy(end.decodeBusyMs),
      requestsPerSecond: this.#completed / seconds,
      outputTokensPerSecond: this.#outputTokens / seconds,
      endMs: this.#endMs,
      events: end.events,
      openBookings: end.openBookings,
      predictionErrors: {
        ttft: errors.ttft.meanError,
        prefill: errors.prefill.meanError,
        decode: errors.decode.meanError,
        transfer: errors.transfer.meanError,
      },
      loads: this.#loads,
      roleChanges: end.roleChanges,
    };
  }

  /** Requests with one token have no gaps, and keep every deadline. */
  #tbtWithin(): Record<string, number> {
    const rest = this.#completed - this.#tail.length;
    const share = (deadlineMs: number) =>
      (this.#tail.filter((ms) => ms <= deadlineMs).length + rest) / Math.max(this.#requests, 1);
    return Object.fromEntries(TBT_DEADLINES.map((deadlineMs) => [deadlineMs, share(deadlineMs)]));
  }
}

function within(ms: number, deadlineMs: number | null): boolean {
  return deadlineMs === null || ms <= deadlineMs;
}

function attained(values: readonly number[], deadlineMs: number | null): number | null {
  if (deadlineMs === null) return null;
  const within = values.filter((value) => value <= deadlineMs).length;
  return within / Math.max(values.length, 1);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
}
