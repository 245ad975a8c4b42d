import { describe, expect, test } from "vitest";
import { pairIds } from "../../src/engine/caller/pair-ids.ts";
import { pairFrameOf } from "../../src/tokenizer/pair-frame.ts";

const frame = { before: [1], between: [2], after: [2], typed: true };
const ids = (count: number, from: number) => Array.from({ length: count }, (_, i) => from + i);

describe("[RG66] a pair in its frame", () => {
  test("is whole where it fits, and its second text is of type 1", () => {
    const pair = pairIds([10, 11], [20], { frame, tokensMax: 6 });
    expect(pair).toEqual({ ids: Int32Array.of(1, 10, 11, 2, 20, 2), secondFrom: 4 });
    const untyped = pairIds([10], [], { frame: { ...frame, typed: false }, tokensMax: 9 });
    expect(untyped).toEqual({ ids: Int32Array.of(1, 10, 2, 2) });
  });

  // Lengths as Hugging Face's tokenizers 0.23 cuts them to 10 tokens, 3 of them special.
  test.each([
    [2, 20, 2, 5],
    [20, 2, 5, 2],
    [9, 9, 3, 4],
    [9, 8, 4, 3],
    [3, 20, 3, 4],
    [20, 4, 4, 3],
    [4, 20, 3, 4],
    [0, 20, 0, 7],
  ])("of %i and %i tokens keeps %i and %i", (first, second, one, two) => {
    const pair = pairIds(ids(first, 100), ids(second, 200), { frame, tokensMax: 10 });
    const kept = [...ids(one, 100), 2, ...ids(two, 200)];
    expect([...(pair?.ids ?? [])]).toEqual([1, ...kept, 2]);
  });

  test("has no place where the frame alone is longer", () => {
    expect(pairIds([], [], { frame, tokensMax: 2 })).toBeNull();
    expect(pairIds([5], [6], { frame, tokensMax: 3 })?.ids).toEqual(Int32Array.of(1, 2, 2));
  });
});

test("[RG66] a frame is found around two texts, or there is none", () => {
  const found = { framed: [1, 7, 2, 2, 8, 2], types: null, first: [7], second: [8] };
  expect(pairFrameOf(found)).toEqual({ before: [1], between: [2, 2], after: [2], typed: false });
  expect(pairFrameOf({ ...found, types: [0, 0, 0, 0, 1, 1] })?.typed).toBe(true);
  expect(pairFrameOf({ ...found, second: [9] })).toBeNull();
  expect(pairFrameOf({ ...found, first: [9] })).toBeNull();
});
