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
