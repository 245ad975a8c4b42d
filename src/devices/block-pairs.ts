import { assert } from "#base";
import { at } from "#tensor";

/** Number of blocks on each side of a move. */
export interface MoveSides {
  readonly from: number;
  readonly to: number;
}

/**
 * Calls `move(from, to)` for each pair of a list [n, 2], in order. A block that does not exist is a
 * bug of the caller; the whole list is checked before the first call, so no list is half done.
 */
export function forEachPair(
  pairs: Int32Array,
  sides: MoveSides,
  move: (from: number, to: number) => void,
): void {
  checkPairs(pairs, sides);
  for (let i = 0; i < pairs.length; i += 2) move(at(pairs, i), at(pairs, i + 1));
}

/** Asserts that `pairs` is a list [n, 2] of blocks that exist. */
export function checkPairs(pairs: Int32Array, sides: MoveSides): void {
  assert(
    pairs.length % 2 === 0,
    `Cannot move blocks: ${pairs.length} numbers are no list of pairs`,
  );
  for (let i = 0; i < pairs.length; i += 2) {
    const [from, to] = [at(pairs, i), at(pairs, i + 1)];
    assert(
      from >= 0 && from < sides.from && to >= 0 && to < sides.to,
      `Cannot move block ${from} to ${to}: there are ${sides.from} and ${sides.to}`,
    );
  }
}
