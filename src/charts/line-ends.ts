/** Names beside the ends of lines, where they can be told apart. */
import { textWidth } from "./text-width.ts";

export interface LineEnd {
  readonly name: string;
  readonly y: number;
  /** Its colour. Ends of one colour may be together. */
  readonly shade: number;
}

/** Between the base lines of two names. */
const APART = 14;
/** A name further from its line's end could be taken for another one's. */
const SHIFT_MAX = 2.2 * APART;
/** Ends that are nearer to each other are one for the eye. */
const SAME = 3;
const WIDTH_MAX = 170;

/**
 * Where the name of each end stands, in the order of the ends, between `top` and `bottom`; null
 * where they would be too far from their lines or too long, or where two ends are in one place.
 */
export function placedEnds(
  ends: readonly LineEnd[],
  { top, bottom }: { readonly top: number; readonly bottom: number },
): readonly number[] | null {
  if (ends.some(({ name }) => textWidth(name, 12) > WIDTH_MAX)) return null;
  const order = ends.map((end, place) => ({ ...end, place })).sort((a, b) => a.y - b.y);
  const together = order.some(({ y, shade }, rank) => {
    const next = order[rank + 1];
    return next !== undefined && next.shade !== shade && next.y - y < SAME;
  });
  if (together) return null;
  const stacks = stacked(order.map(({ y }) => y));
  const places = new Array<number>(ends.length).fill(0);
  const shift = Math.max(0, top - (stacks[0] ?? top));
  const lift = Math.max(0, (stacks.at(-1) ?? bottom) + shift - bottom);
  order.forEach(({ place }, rank) => {
    places[place] = (stacks[rank] ?? 0) + shift - lift;
  });
  const first = Math.min(...places);
  const far = ends.some(({ y }, place) => Math.abs((places[place] ?? 0) - y) > SHIFT_MAX);
  return far || first < top - 1 ? null : places;
}

interface Stack {
  /** Of the names' middles. */
  middle: number;
  count: number;
}

/** Rising heights as near to the wanted ones as distances allow: neighbours move as one. */
function stacked(wanted: readonly number[]): number[] {
  const stacks: Stack[] = [];
  for (const y of wanted) {
    let stack: Stack = { middle: y, count: 1 };
    for (let below = stacks.at(-1); below !== undefined; below = stacks.at(-1)) {
      const room = ((below.count + stack.count) / 2) * APART;
      if (stack.middle - below.middle >= room) break;
      stacks.pop();
      const count = below.count + stack.count;
      const sum = below.middle * below.count + stack.middle * stack.count;
      stack = { middle: sum / count, count };
    }
    stacks.push(stack);
  }
  return stacks.flatMap(({ middle, count }) =>
    Array.from({ length: count }, (_, at) => middle + (at - (count - 1) / 2) * APART),
  );
}
