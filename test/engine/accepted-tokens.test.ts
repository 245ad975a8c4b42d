import { expect, test } from "vitest";
import { AcceptedTokens } from "../../src/engine/loop/accepted-tokens.ts";

/** Slots of a step's rows in two groups of layers: blocks of 4 tokens, not in order. */
const tables = [
  { slots: Int32Array.of(0, 40, 41, 42, 43, 8, 9), blockTables: new Int32Array() },
  { slots: Int32Array.of(0, 20, 21, 22, 23, 4, 5), blockTables: new Int32Array() },
];

test("[SP7] accepted nodes come to lie behind the root, in every group of layers", () => {
  const accepted = new AcceptedTokens();
  accepted.add(tables, 1, [0, 2, 4, 5]);
  expect(accepted.moves()).toEqual({
    starts: Int32Array.of(0, 3, 6),
    moves: Int32Array.of(42, 41, 8, 42, 9, 43, 22, 21, 4, 22, 5, 23),
  });
});

test("[SP7] along the first continuation nothing moves; other sequences make further groups", () => {
  const accepted = new AcceptedTokens();
  expect(accepted.moves()).toBeNull();
  accepted.add(tables, 1, [0, 1, 2, 3]);
  accepted.add(tables, 1, [0]);
  expect(accepted.moves()).toBeNull();
  accepted.add(tables.slice(0, 1), 0, [0, 1, 3]);
  accepted.add(tables.slice(1), 4, [0, 2]);
  expect(accepted.moves()).toEqual({
    starts: Int32Array.of(0, 1, 2),
    moves: Int32Array.of(42, 41, 5, 4),
  });
  accepted.clear();
  expect(accepted.moves()).toBeNull();
});
