/** Numbers as people read them. */

/** 1,234 · 12.3 k · 4.56 M */
export function count(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (value < 10_000) return Math.round(value).toLocaleString("en");
  for (const [unit, size] of UNITS) {
    if (value >= size) return `${threeDigits(value / size)} ${unit}`;
  }
  return String(Math.round(value));
}

const UNITS = [
  ["T", 1e12],
  ["G", 1e9],
  ["M", 1e6],
  ["k", 1e3],
] as const;

/** 1.23, 12.3, 123, 1234: never with an exponent. */
function threeDigits(value: number): string {
  return value >= 99.95 ? String(Math.round(value)) : value.toPrecision(3);
}

/** A rate; below ten with a decimal. */
export function rate(value: number): string {
  return value > 0 && value < 10 ? value.toFixed(1) : count(value);
}

/** 850 µs · 12.4 ms · 1.20 s; – where there is none. */
export function duration(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return "–";
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${threeDigits(seconds * 1e3)} ms`;
  return `${threeDigits(seconds)} s`;
}

export function bytes(value: number): string {
  for (const [unit, size] of BYTE_UNITS) {
    if (value >= size) return `${threeDigits(value / size)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

const BYTE_UNITS = [
  ["TiB", 2 ** 40],
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
] as const;

/** A share as per cent; – of nothing. */
export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(part === whole ? 0 : 1)} %` : "–";
}
