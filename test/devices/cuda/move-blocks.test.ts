import { expect, test } from "vitest";
import { independentMoves } from "../../../src/devices/cuda/ops/move-blocks.ts";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";

/** What blocks hold after moves that are done one after the other. */
function inOrder(pairs: Int32Array, blocks: number): number[] {
  const held = Array.from({ length: blocks }, (_, i) => i);
  for (let i = 0; i < pairs.length; i += 2) held[pairs[i + 1] ?? 0] = held[pairs[i] ?? 0] ?? 0;
  return held;
}

/** The same with the moves of a part all reading before any writes. */
function inParts(pairs: Int32Array, blocks: number, countMax: number): number[] {
  const held = Array.from({ length: blocks }, (_, i) => i);
  for (const { start, end } of independentMoves(pairs, countMax)) {
    expect(end - start).toBeLessThanOrEqual(countMax);
    const part = pairs.subarray(2 * start, 2 * end);
    const read = Array.from({ length: end - start }, (_, i) => held[part[2 * i] ?? 0] ?? 0);
    read.forEach((value, i) => {
      held[part[2 * i + 1] ?? 0] = value;
    });
  }
  return held;
}

test.for([1, 2, 3, 4, 5, 6, 7, 8])("parts do what the list in order does (seed %i)", (seed) => {
  const random = new RandomNumbers(seed);
  const blocks = 3 + seed * 4;
  const pairs = Int32Array.from({ length: 400 }, () => random.below(blocks));
  expect(inParts(pairs, blocks, 16)).toEqual(inOrder(pairs, blocks));
});

test("moves that do not touch each other are one part, up to its longest", () => {
  const pairs = Int32Array.from({ length: 20 }, (_, i) => i);
  expect([...independentMoves(pairs, 128)]).toEqual([{ start: 0, end: 10 }]);
  expect([...independentMoves(pairs, 4)].map(({ end }) => end)).toEqual([4, 8, 10]);
  expect([...independentMoves(new Int32Array(0), 4)]).toEqual([]);
});
