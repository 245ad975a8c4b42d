/** Pearson's statistic of counts against a law, and the limit that fails one good run in a million. */
export interface ChiSquared {
  readonly statistic: number;
  readonly limit: number;
}

/** Cells that the law makes impossible must stay empty. */
export function chiSquared(
  counts: ReadonlyMap<string, number>,
  law: ReadonlyMap<string, number>,
): ChiSquared {
  const draws = [...counts.values()].reduce((sum, count) => sum + count, 0);
  let [statistic, cells] = [0, 0];
  for (const [cell, probability] of law) {
    const count = counts.get(cell) ?? 0;
    if (probability === 0 && count > 0) return { statistic: Number.POSITIVE_INFINITY, limit: 0 };
    if (probability === 0) continue;
    const expected = probability * draws;
    statistic += (count - expected) ** 2 / expected;
    cells++;
  }
  // Wilson and Hilferty's approximation of the quantile.
  const degrees = Math.max(1, cells - 1);
  const z = 4.75;
  const limit = degrees * (1 - 2 / (9 * degrees) + z * Math.sqrt(2 / (9 * degrees))) ** 3;
  return { statistic, limit };
}

/** How often each result of `draws` calls occurs; results are numbers, joined by spaces. */
export function countsOf(
  draws: number,
  make: (draw: number) => readonly number[],
): Map<string, number> {
  const counts = new Map<string, number>();
  for (let draw = 0; draw < draws; draw++) {
    const key = make(draw).join(" ");
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}
