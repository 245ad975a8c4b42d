/**
 * Latencies counted in buckets of equal ratio, eight for each doubling: a quantile is told within
 * 4.5 % at a fixed cost. The buckets of the metrics begin at 10 ms, above what small models take.
 */

/** Of the first bucket: 10 µs. */
const LEAST_SECONDS = 1e-5;
const PER_DOUBLING = 8;
/** Up to some 170 s; the last bucket has all that is longer. */
const BUCKETS = 24 * PER_DOUBLING;

/** The bucket of a latency. */
export function bucketOf(seconds: number): number {
  if (!(seconds > LEAST_SECONDS)) return 0;
  const bucket = Math.floor(Math.log2(seconds / LEAST_SECONDS) * PER_DOUBLING);
  return Math.min(bucket, BUCKETS - 1);
}

/** A latency in the middle of a bucket, in seconds. */
export function secondsOf(bucket: number): number {
  return LEAST_SECONDS * 2 ** ((bucket + 0.5) / PER_DOUBLING);
}

/** Quantiles of the latencies that came lately. */
export interface Quantiles {
  readonly count: number;
  /** In seconds; null where nothing came. */
  readonly p50: number | null;
  readonly p99: number | null;
}

/** Counts of the last `ticks` ticks. */
export class LatencyWindow {
  readonly #total = new Float64Array(BUCKETS);
  readonly #ticks: (readonly number[])[];
  #place = 0;
  #now: number[] = [];
  #count = 0;

  constructor(ticks: number) {
    this.#ticks = Array.from({ length: ticks }, () => []);
  }

  /** Adds [bucket, count, …]. */
  add(counts: readonly number[]): void {
    this.#now.push(...counts);
    this.#apply(counts, 1);
  }

  /** A tick is over: what came in the oldest one does not count any more. */
  turn(): void {
    this.#apply(this.#ticks[this.#place] ?? [], -1);
    this.#ticks[this.#place] = this.#now;
    this.#now = [];
    this.#place = (this.#place + 1) % this.#ticks.length;
  }

  quantiles(): Quantiles {
    return { count: this.#count, p50: this.#quantile(0.5), p99: this.#quantile(0.99) };
  }

  #apply(counts: readonly number[], sign: 1 | -1): void {
    for (let at = 0; at + 1 < counts.length; at += 2) {
      const bucket = counts[at] ?? 0;
      const change = sign * (counts[at + 1] ?? 0);
      this.#total[bucket] = (this.#total[bucket] ?? 0) + change;
      this.#count += change;
    }
  }

  #quantile(share: number): number | null {
    if (this.#count === 0) return null;
    let left = Math.ceil(this.#count * share);
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= this.#total[bucket] ?? 0;
      if (left <= 0) return secondsOf(bucket);
    }
    return secondsOf(BUCKETS - 1);
  }
}
