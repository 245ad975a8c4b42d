import { describe, expect, test } from "vitest";
import { extraOf, parseExtra } from "../../src/kvcache/contents/content-keys.ts";

const hash = "ab".repeat(32);

describe("what tells a block's contents apart", () => {
  test("[KV7] is nothing without keys, and where all ids are 0", () => {
    expect(extraOf(null, 0, 4)).toBe("");
    expect(extraOf({}, 0, 4)).toBe("");
    expect(extraOf({ extraIds: [0, 0, 0, 0, 5] }, 0, 4)).toBe("");
    expect(extraOf({ items: [{ hash, start: 4, length: 2 }] }, 0, 4)).toBe("");
    expect(parseExtra("")).toEqual({ extraIds: null, multimodalKeys: [] });
  });

  test("[KV7] is the block's part of the ids", () => {
    const extra = extraOf({ extraIds: [0, 0, 0, 0, 5, 0, 7, 0] }, 4, 8);
    expect(parseExtra(extra)).toEqual({ extraIds: [5, 0, 7, 0], multimodalKeys: [] });
  });

  test("[KV7] is each item that the block overlaps, and how far into it the block begins", () => {
    const other = "cd".repeat(32);
    const items = [
      { hash, start: 2, length: 4 },
      { hash: other, start: 6, length: 9 },
    ];
    const offsets = [0, 4, 8, 12, 16].map((start) =>
      parseExtra(extraOf({ items }, start, start + 4)).multimodalKeys.map((key) => [
        ...[key.hash === hash ? "first" : "second", key.startOffset],
      ]),
    );
    expect(offsets).toEqual([
      [["first", 0]],
      [
        ["first", 2],
        ["second", 0],
      ],
      [["second", 2]],
      [["second", 6]],
      [],
    ]);
  });
});

test("V 5.1 (9): each block names the items that overlap it, by TensorRT-LLM's offsets", () => {
  const items = [
    { hash: "aaa", start: 11, length: 10 },
    { hash: "bbb", start: 30, length: 18 },
    { hash: "ccc", start: 48, length: 7 },
  ];
  const keysOf = (start: number) =>
    parseExtra(extraOf({ items }, start, start + 16)).multimodalKeys.map(
      ({ hash, startOffset }) => [hash, startOffset],
    );
  expect([0, 16, 32, 48].map(keysOf)).toEqual([
    [["aaa", 0]],
    [
      ["aaa", 5],
      ["bbb", 0],
    ],
    [["bbb", 2]],
    [["ccc", 0]],
  ]);
});
