/** Where values stand on a chart, and which of them are written. */

export type Scale = "linear" | "log";

export interface Axis {
  /** 0 to 1 between both ends; values outside stand at an end. */
  at(value: number): number;
  /** From the least, at most a dozen. */
  readonly ticks: readonly number[];
}

export interface AxisOptions {
  readonly scale?: Scale;
  /** May a linear axis begin above 0, where all values are far from it? */
  readonly afar?: boolean;
}

const TICKS = 5;
/** Decades of a log axis at most: what is further down stands at its end. */
const DECADES_MAX = 6;
/** From here on the decades alone are written. */
const DECADES_PLAIN = 3;

/** An axis from 0, or of a log scale from the least value above 0, to the most. */
export function axisOf(values: Iterable<number>, { scale, afar }: AxisOptions = {}): Axis {
  let least = Number.POSITIVE_INFINITY;
  let most = 0;
  let positive = Number.POSITIVE_INFINITY;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value > 0) positive = Math.min(positive, value);
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  if (scale === "log" && most > 0) return logAxis(positive, most);
  const from = afar === true && least >= FAR * most && least < most ? least : 0;
  return linearAxis(from, most > 0 ? most : 1);
}

/** Of the most; an axis whose least value is above it may begin there. */
const FAR = 0.3;

/** An axis with `count` places 0, 1, 2 …, each with room on both sides. */
export function placeAxis(count: number): Axis {
  const ticks = Array.from({ length: count }, (_, place) => place);
  return { at: (place) => within((place + 0.5) / Math.max(count, 1)), ticks };
}

function linearAxis(least: number, most: number): Axis {
  const step = niceStep((most - least) / TICKS);
  const first = Math.floor(least / step + 1e-9);
  const last = Math.max(Math.ceil(most / step - 1e-9), first + 1);
  const ticks = Array.from({ length: last - first + 1 }, (_, at) => rounded((first + at) * step));
  const start = first * step;
  return { at: (value) => within((value - start) / ((last - first) * step)), ticks };
}

/** Without the noise of sums, which would be written. */
function rounded(value: number): number {
  return Number(value.toPrecision(12));
}

function logAxis(least: number, most: number): Axis {
  const last = Math.ceil(Math.log10(most) - 1e-9);
  const first = Math.max(Math.floor(Math.log10(least) + 1e-9), last - DECADES_MAX);
  const between = Math.log10(most) - Math.log10(least) < DECADES_PLAIN;
  const ticks = decades(first, last, between ? [1, 2, 5] : [1]);
  const from = between
    ? Math.max(
        ticks.findLastIndex((tick) => tick <= least * (1 + 1e-9)),
        0,
      )
    : 0;
  const upTo = ticks.findIndex((tick) => tick >= most * (1 - 1e-9));
  const shown = ticks.slice(from, Math.max(upTo, from + 1) + 1);
  const low = Math.log10(shown[0] ?? 1);
  const high = Math.log10(shown.at(-1) ?? 10);
  return {
    at: (value) => (value > 0 ? within((Math.log10(value) - low) / (high - low)) : 0),
    ticks: shown,
  };
}

/** Multiples of each power of ten, and the first one behind them. */
function decades(first: number, last: number, factors: readonly number[]): number[] {
  const powers = Array.from({ length: Math.max(last - first, 1) }, (_, at) => first + at);
  const ticks = powers.flatMap((power) => factors.map((factor) => power10(power) * factor));
  return [...ticks.map(rounded), power10((powers.at(-1) ?? 0) + 1)];
}

function power10(power: number): number {
  return Number(`1e${power}`);
}

/** 1, 2 or 5 times a power of ten, not below. */
function niceStep(least: number): number {
  const power = power10(Math.floor(Math.log10(least)));
  const factor = [1, 2, 5].find((nice) => nice * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

function within(share: number): number {
  return Math.min(Math.max(share, 0), 1);
}

/** Short: 1200 is 1.2k. */
export function tickText(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e9) return `${Number((value / 1e9).toPrecision(3))}G`;
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e3) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3)));
}
