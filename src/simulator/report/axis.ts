/** Where values stand on a chart, and which of them are written. */

export type Scale = "linear" | "log";

export interface Axis {
  /** 0 to 1 between both ends; values outside stand at an end. */
  at(value: number): number;
  readonly ticks: readonly number[];
}

const TICKS = 5;
/** Decades of a log axis at most: what is further down stands at its end. */
const DECADES_MAX = 6;

/** An axis from 0, or of a log scale from the least value above 0, to the most. */
export function axisOf(values: Iterable<number>, scale: Scale): Axis {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value > 0) least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (scale === "log" && most > 0) return logAxis(least, most);
  return linearAxis(most > 0 ? most : 1);
}

function linearAxis(most: number): Axis {
  const step = niceStep(most / TICKS);
  const count = Math.ceil(most / step - 1e-9);
  const end = count * step;
  const ticks = Array.from({ length: count + 1 }, (_, at) => at * step);
  return { at: (value) => within(value / end), ticks };
}

function logAxis(least: number, most: number): Axis {
  const last = Math.ceil(Math.log10(most) - 1e-9);
  const first = Math.max(Math.floor(Math.log10(least) + 1e-9), last - DECADES_MAX);
  const decades = Math.max(last - first, 1);
  const ticks = Array.from({ length: decades + 1 }, (_, at) => 10 ** (first + at));
  return {
    at: (value) => (value > 0 ? within((Math.log10(value) - first) / decades) : 0),
    ticks,
  };
}

/** 1, 2 or 5 times a power of ten, not below. */
function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  const factor = [1, 2, 5].find((nice) => nice * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

function within(share: number): number {
  return Math.min(Math.max(share, 0), 1);
}

/** Short: 1200 is 1.2k. */
export function tickText(value: number): string {
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (value >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}
