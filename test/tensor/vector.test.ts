import { expect, test } from "vitest";
import {
  absMaxOf,
  addScaled,
  argmax,
  dot,
  dotFrom,
  dotInt8From,
  maxOf,
  scaleRow,
  softmax,
} from "#tensor";

test("a dot product of any length and start sums every pair once", () => {
  for (let count = 0; count < 10; count++) {
    const a = Float32Array.from({ length: count + 2 }, (_, i) => i + 1);
    const b = Float32Array.from({ length: count + 3 }, (_, i) => 10 ** (i % 4));
    let expected = 0;
    for (let i = 0; i < count; i++) expected += (i + 3) * 10 ** ((i + 3) % 4);
    expect(dotFrom(a, 2, b, 3, count)).toBe(expected);
  }
  expect(dot(Float32Array.of(1, 2), Float32Array.of(3, 4))).toBe(11);
});

test("8-bit dot products are exact", () => {
  const row = new Int8Array(1000).fill(-127);
  expect(dotInt8From(row, 0, row, 0, 1000)).toBe(127 * 127 * 1000);
});

test("rows are added and scaled in place", () => {
  const row = Float32Array.of(1, 2);
  addScaled(row, Float32Array.of(10, 20), 0.5);
  expect(row).toEqual(Float32Array.of(6, 12));
  scaleRow(row, 2);
  expect(row).toEqual(Float32Array.of(12, 24));
});

test("extremes of a row, and of an empty one", () => {
  expect(maxOf([-3, -1, -2])).toBe(-1);
  expect(maxOf([])).toBe(Number.NEGATIVE_INFINITY);
  expect(absMaxOf([1, -3, 2])).toBe(3);
  expect(absMaxOf([])).toBe(0);
});

test("argmax takes the first of equals", () => {
  expect(argmax([1, 3, 3])).toBe(1);
  expect(argmax([Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY])).toBe(0);
});

test("softmax adds up to 1, does not overflow, and gives -Infinity nothing", () => {
  expect(Array.from(softmax([1000, 1000]))).toEqual([0.5, 0.5]);
  expect(Array.from(softmax([0, Number.NEGATIVE_INFINITY]))).toEqual([1, 0]);
});
