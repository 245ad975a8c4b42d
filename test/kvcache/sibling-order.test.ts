import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import {
  commonTokens,
  firstDifference,
  NONE,
  type SiblingKey,
  SiblingOrder,
} from "../../src/kvcache/contents/sibling-order.ts";

const keyOf = (tokens: readonly number[], extra = 0): SiblingKey => ({
  extra,
  tokens: Int32Array.from(tokens),
  start: 0,
  count: tokens.length,
});

/** The children of one parent. */
class Siblings {
  readonly order = new SiblingOrder(1_000);
  readonly keys = new Map<number, SiblingKey>();
  link = NONE;

  add(node: number, key: SiblingKey): void {
    const nearest = this.link === NONE ? null : this.keys.get(this.order.nearest(this.link, key));
    const position = nearest === null ? NONE : firstDifference(key, nearest ?? key);
    this.link = this.order.add(this.link, node, key, position);
    this.keys.set(node, key);
  }

  remove(node: number): void {
    this.link = this.order.remove(this.link, this.keys.get(node) ?? keyOf([]));
    this.keys.delete(node);
  }

  nearest(tokens: readonly number[], extra = 0): number {
    return this.order.nearest(this.link, keyOf(tokens, extra));
  }

  /** All children, in the order of their bits. */
  all(link: number = this.link): number[] {
    if (link === NONE) return [];
    const parts = this.order.parts(link);
    return parts === null ? [link] : parts.flatMap((part) => this.all(part));
  }
}

test("[KV7] children lie in the order of their tokens, what ends before what goes on", () => {
  const siblings = new Siblings();
  const tokens = [[2, 1], [1, 5, 9], [1, 5], [-1], [1, 4, 2 ** 31 - 1], [0]];
  tokens.forEach((own, node) => {
    siblings.add(node, keyOf(own));
  });
  // As unsigned integers, so -1 comes last.
  expect(siblings.all()).toEqual([5, 4, 2, 1, 0, 3]);
  expect(siblings.order.first(siblings.link)).toBe(5);
  for (const node of [2, 5, 0, 1, 3, 4]) siblings.remove(node);
  expect(siblings.link).toBe(NONE);
});

test("[KV7] children with extra keys stand apart from those without", () => {
  const siblings = new Siblings();
  siblings.add(0, keyOf([1, 2, 3], 2));
  siblings.add(1, keyOf([9, 9, 9]));
  siblings.add(2, keyOf([1, 2, 3], 3));
  expect(siblings.nearest([1, 2, 3])).toBe(1);
  expect(siblings.nearest([1, 2, 3], 2)).toBe(0);
  expect(siblings.nearest([1, 2, 3], 3)).toBe(2);
  expect(siblings.all()[0]).toBe(1);
});

test("[KV7] keys differ first in a token's bits, or where one of them ends", () => {
  expect(firstDifference(keyOf([1, 2]), keyOf([1, 2]))).toBe(NONE);
  const inTokens = firstDifference(keyOf([1, 2]), keyOf([1, 3]));
  const inHigherBits = firstDifference(keyOf([1, 2]), keyOf([1, -3]));
  const atTheEnd = firstDifference(keyOf([1]), keyOf([1, 3]));
  const inExtras = firstDifference(keyOf([1], 1), keyOf([2], 2));
  expect([inExtras, atTheEnd, inHigherBits, inTokens]).toEqual(
    [inTokens, inHigherBits, atTheEnd, inExtras].sort((a, b) => a - b),
  );
  expect(commonTokens(keyOf([1, 2, 3]), keyOf([1, 2, 4]))).toBe(2);
  expect(commonTokens(keyOf([1, 2]), keyOf([1, 2, 4]))).toBe(2);
});

test("[KV2] of a thousand children one is told apart by a few bits, whatever came and went", () => {
  const siblings = new Siblings();
  const seed = seedFrom(7);
  const tokensOf = (node: number) =>
    Array.from({ length: 4 }, (_, at) => Math.floor(uniformAt(seed, node, at) * 50_000));
  for (let round = 0; round < 20; round++) {
    for (let node = 0; node < 1_000; node++) siblings.add(node, keyOf(tokensOf(node + round)));
    const depthOf = (link: number): number =>
      1 + Math.max(0, ...(siblings.order.parts(link) ?? []).map(depthOf));
    // Ten bits would do in the best order; equal beginnings of random tokens add a few.
    expect(depthOf(siblings.link)).toBeLessThan(30);
    expect(siblings.nearest(tokensOf(500 + round))).toBe(500);
    for (let node = 0; node < 1_000; node++) siblings.remove((node * 7 + round) % 1_000);
    expect(siblings.link).toBe(NONE);
  }
});
