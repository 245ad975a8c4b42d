import { expect, test } from "vitest";
import { allow, allows, allowsOther, intersect, maskOf } from "../../src/sampling/token-mask.ts";

test("a mask holds the tokens it was made of, the 32nd bit included", () => {
  const mask = maskOf([0, 31, 32, 63], 2);
  expect(Array.from(mask)).toEqual([0x80000001, 0x80000001]);
  expect([30, 31, 32].map((token) => allows(mask, token))).toEqual([false, true, true]);
  allow(mask, 30);
  expect(allows(mask, 30)).toBe(true);
});

test("an intersection holds what both hold", () => {
  const mask = maskOf([1, 31, 40], 2);
  intersect(mask, maskOf([31, 41], 2));
  expect(mask).toEqual(maskOf([31], 2));
});

test("a mask of nothing but stop tokens allows no other", () => {
  expect(allowsOther(maskOf([5, 63], 2), [5, 63])).toBe(false);
  expect(allowsOther(maskOf([5, 62], 2), [5, 63])).toBe(true);
  expect(allowsOther(maskOf([], 2), [])).toBe(false);
});
