/** The value below which `share` of the samples lie (nearest rank). NaN without samples. */
export function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1));
  return sorted[rank] ?? Number.NaN;
}

export function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

export function mean(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

/** How many times as fast one kind of run is as another. */
export interface SpeedUp {
  /** Of the medians; null: within noise, or too few runs to tell. */
  readonly speedUp: number | null;
  /** The least and the most of pairs of runs, one of each kind in turn. */
  readonly speedUpRange: readonly [least: number, most: number];
}

/** Fewer pairs say nothing about noise. */
const PAIRS_MIN = 3;

/** Compares runs that were made in turn: `seconds[i]` and `without[i]` beside each other. */
export function speedUpOf(seconds: readonly number[], without: readonly number[]): SpeedUp {
  const pairs = seconds.map((taken, place) => (without[place] ?? Number.NaN) / taken);
  const [least, most] = [Math.min(...pairs), Math.max(...pairs)];
  const isNoise = pairs.length < PAIRS_MIN || (least <= 1 && most >= 1);
  return {
    speedUp: isNoise ? null : median(without) / median(seconds),
    speedUpRange: [least, most],
  };
}

/** Summary statistics: middle and tail, in the samples' unit, three decimals. */
export function summarize(samples: readonly number[]) {
  const round = (value: number) => Math.round(value * 1000) / 1000;
  return {
    mean: round(mean(samples)),
    p50: round(median(samples)),
    p90: round(percentile(samples, 0.9)),
    p99: round(percentile(samples, 0.99)),
  };
}
