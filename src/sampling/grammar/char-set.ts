/** Sets of Unicode characters as ranges: sorted, apart from each other, both ends included. */
export type CharSet = readonly (readonly [number, number])[];

export const lastCharacter = 0x10ffff;

/** Surrogates are not characters of a text. */
const surrogates = [0xd800, 0xdfff] as const;

/** The union of `ranges`, in any order, overlapping or not. */
export function charSet(ranges: Iterable<readonly [number, number]>): CharSet {
  const sorted = [...ranges].filter(([low, high]) => low <= high).sort((a, b) => a[0] - b[0]);
  const set: [number, number][] = [];
  for (const [low, high] of sorted) {
    const last = set.at(-1);
    if (last !== undefined && low <= last[1] + 1) last[1] = Math.max(last[1], high);
    else set.push([low, high]);
  }
  return set;
}

export function unionOf(a: CharSet, b: CharSet): CharSet {
  if (a.length === 0) return b;
  return b.length === 0 ? a : charSet([...a, ...b]);
}

/** All other characters of a text. */
export function complementOf(set: CharSet): CharSet {
  const rest: [number, number][] = [];
  let next = 0;
  for (const [low, high] of charSet([...set, surrogates])) {
    if (next < low) rest.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= lastCharacter) rest.push([next, lastCharacter]);
  return rest;
}

export function intersects(a: CharSet, b: CharSet): boolean {
  let [left, right] = [0, 0];
  for (;;) {
    const [one, other] = [a[left], b[right]];
    if (one === undefined || other === undefined) return false;
    if (one[1] < other[0]) left++;
    else if (other[1] < one[0]) right++;
    else return true;
  }
}
