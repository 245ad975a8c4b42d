/** Atoms become spans within a budget of tokens. */
import type { Atom } from "./atoms.ts";

/** Part of a text: from `start` up to `end`, in UTF-16 units. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Longest span, in UTF-16 units, though it may have few tokens: white space has none. Stores keep
 * texts of 65,535 bytes in UTF-8.
 */
export const SPAN_LENGTH_MAX = 16_000;

/** How spans are made. */
export interface PackingLimits {
  /** Most tokens of a span; one atom of more is a span of its own. */
  readonly tokens: number;
  /** Most tokens that a span repeats of the one before it. */
  readonly overlapTokens: number;
}

/**
 * Spans over all atoms in order. A span is filled beyond half of its budget, and then ends where
 * the text does most: at a paragraph rather than a line, a line rather than a sentence, at the last
 * of equals. The next one repeats whole atoms of its end.
 */
export function pack(
  atoms: readonly Atom[],
  tokens: readonly number[],
  limits: PackingLimits,
): Span[] {
  const sums = [0];
  for (const count of tokens) sums.push((sums.at(-1) ?? 0) + count);
  const sum = (from: number, to: number) => (sums[to] ?? 0) - (sums[from] ?? 0);
  const fits = (from: number, to: number) => {
    const length = (atoms[to - 1]?.end ?? 0) - (atoms[from]?.start ?? 0);
    return sum(from, to) <= limits.tokens && length <= SPAN_LENGTH_MAX;
  };
  const spans: Span[] = [];
  let from = 0;
  while (from < atoms.length) {
    let to = from + 1;
    while (to < atoms.length && fits(from, to + 1)) to++;
    if (to < atoms.length)
      to = bestEnd(atoms, from, to, (end) => sum(from, end) * 2 > limits.tokens);
    spans.push({ start: atoms[from]?.start ?? 0, end: atoms[to - 1]?.end ?? 0 });
    if (to === atoms.length) break;
    const overlaps = (start: number) =>
      sum(start, to) <= limits.overlapTokens && fits(start, to + 1);
    from = overlapStart(from, to, overlaps);
  }
  return spans;
}

/** The end of a span from `from` up to at most `to`: the best of those that fill it enough. */
function bestEnd(
  atoms: readonly Atom[],
  from: number,
  to: number,
  isFilled: (end: number) => boolean,
): number {
  let best = to;
  for (let end = to - 1; end > from && isFilled(end); end--) {
    if ((atoms[end - 1]?.rank ?? 0) > (atoms[best - 1]?.rank ?? 0)) best = end;
  }
  return best;
}

/** Where the next span begins: at an atom of the last one, so that there is room for a new atom. */
function overlapStart(from: number, to: number, overlaps: (start: number) => boolean): number {
  let start = to;
  while (start - 1 > from && overlaps(start - 1)) start--;
  return start;
}
