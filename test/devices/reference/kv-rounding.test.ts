import { describe, expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { roundKv } from "../../../src/devices/reference/kv-rounding.ts";
import { DevicePair } from "../../contracts/device-ops/pair.ts";
import { quantisedKv } from "../../contracts/device-ops/quantised-kv.ts";

const pair = new DevicePair(new ReferenceDevice());
describe("reference", () => quantisedKv(() => pair));

/** Every e4m3fn number that is not negative, by its seven bits: 4 of exponent, 3 of fraction. */
const fp8Numbers = Array.from({ length: 127 }, (_, code) => {
  const [exponent, fraction] = [code >>> 3, code & 7];
  return exponent === 0 ? fraction * 2 ** -9 : (1 + fraction / 8) * 2 ** (exponent - 7);
});

function rounded(values: number[], format: "i8" | "fp8", scale?: number): number[] {
  return Array.from(roundKv(Float32Array.from(values), format, scale));
}

test("i8 cuts the range up to the largest magnitude into 127 steps, ties to even", () => {
  // The scale is 1: 127 / 127.
  expect(rounded([127, -126.5, 0.5, 1.5, -2.4, 0], "i8")).toEqual([127, -126, 0, 2, -2, 0]);
});

test("a scale is rounded to bf16 before it divides", () => {
  // 1 / 127 lies between bf16 numbers; the largest element is 127 steps of the rounded one.
  const step = 129 / 2 ** 14;
  expect(Math.abs(step - 1 / 127) * 127).toBeLessThan(2 ** -9);
  expect(rounded([1, 0.5], "i8")).toEqual([127 * step, 64 * step]);
});

test("small vectors keep their bits", () => {
  const tiny = 2 ** -100;
  expect(rounded([127 * tiny, 3 * tiny], "i8")).toEqual([127 * tiny, 3 * tiny]);
});

test("every fp8 number is kept as it is, of either sign", () => {
  expect(rounded([448, ...fp8Numbers], "fp8")).toEqual([448, ...fp8Numbers]);
  const negative = fp8Numbers.slice(1).map((value) => -value);
  expect(rounded(negative, "fp8", 1)).toEqual(negative);
  expect(fp8Numbers.at(-1)).toBe(448);
});

test("between two fp8 numbers the nearest is taken, in the middle the even one", () => {
  fp8Numbers.slice(1).forEach((upper, code) => {
    const lower = fp8Numbers[code] ?? 0;
    const middle = (lower + upper) / 2;
    const nearly = (upper - lower) / 1000;
    const even = code % 2 === 0 ? lower : upper;
    const around = [middle - nearly, middle, middle + nearly];
    expect(rounded(around, "fp8", 1)).toEqual([lower, even, upper]);
  });
});

test("T 4.3: with a calibrated scale what is beyond the range saturates", () => {
  expect(rounded([100, -100, 0.26], "i8", 0.5)).toEqual([63.5, -64, 0.5]);
  expect(rounded([1000, -1000, 3.3], "fp8", 2)).toEqual([896, -896, 3.25]);
});
