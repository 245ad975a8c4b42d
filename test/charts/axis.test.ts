import { expect, test } from "vitest";
import { axisOf, placeAxis, tickText } from "../../src/charts/axis.ts";

test("axes have round ticks from 0 to the most, or decades", () => {
  expect(axisOf([3, 47]).ticks).toEqual([0, 10, 20, 30, 40, 50]);
  expect(axisOf([0.1, 0.3]).ticks).toEqual([0, 0.1, 0.2, 0.3]);
  expect(axisOf([3, 4700], { scale: "log" }).ticks).toEqual([1, 10, 100, 1000, 10_000]);
});

test("a log axis of few decades has ticks between them, and ends where values do", () => {
  expect(axisOf([24, 400], { scale: "log" }).ticks).toEqual([20, 50, 100, 200, 500]);
  const axis = axisOf([24, 400], { scale: "log" });
  expect([20, 100, 500].map((value) => axis.at(value))).toEqual([0, 0.5, 1].map(near));
});

const near = (value: number) => expect.closeTo(value, 9);

test("an axis may begin where values do, if all are far from 0", () => {
  expect(axisOf([5, 11], { afar: true }).ticks).toEqual([4, 6, 8, 10, 12]);
  expect(axisOf([5, 11]).ticks[0]).toBe(0);
  expect(axisOf([1, 11], { afar: true }).ticks[0]).toBe(0);
});

test("axes of nothing, of zeros and of values that no number is have ends", () => {
  for (const values of [[], [0], [Number.NaN, Number.POSITIVE_INFINITY], [5, 5]]) {
    for (const scale of ["linear", "log"] as const) {
      const axis = axisOf(values, { scale, afar: true });
      expect(axis.ticks.length).toBeGreaterThan(1);
      for (const value of [0, 5, 1e300]) {
        expect(axis.at(value)).toBeGreaterThanOrEqual(0);
        expect(axis.at(value)).toBeLessThanOrEqual(1);
      }
    }
  }
});

test("a log axis of twenty decades shows the upper six, and a dozen ticks at most", () => {
  const axis = axisOf([1e-10, 1e10], { scale: "log" });
  expect(axis.ticks[0]).toBe(1e4);
  expect(axis.at(1)).toBe(0);
  expect(axis.ticks.length).toBeLessThanOrEqual(12);
});

test("places lie in the middle of equal parts", () => {
  const axis = placeAxis(4);
  expect(axis.ticks.map((place) => axis.at(place))).toEqual([0.125, 0.375, 0.625, 0.875]);
});

test("numbers are written with three digits and thousands as letters", () => {
  const written = [0, 12.345, 0.001, 1200, 5_000_000, 2e9, -1500].map(tickText);
  expect(written).toEqual(["0", "12.3", "0.001", "1.2k", "5M", "2G", "-1.5k"]);
});
