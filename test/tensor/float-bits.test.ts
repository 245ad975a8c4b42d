import { expect, test } from "vitest";
import { bf16FromF32, f16FromF32, f32FromBf16, f32FromF16 } from "#tensor";

const halves = Array.from({ length: 65_536 }, (_, half) => half);

/** The value of an f16 by IEEE 754's definition. */
function defined(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >>> 10) & 31;
  const mantissa = half & 0x3ff;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

test("every f16 widens to the value that IEEE 754 defines", () => {
  const wrong = halves.filter((half) => !Object.is(f32FromF16(half), defined(half)));
  expect(wrong).toEqual([]);
});

test("every 16-bit float that is a number survives widening and narrowing", () => {
  const lost = halves.filter((half) => {
    const [f16, bf16] = [f32FromF16(half), f32FromBf16(half)];
    const same16 = Number.isNaN(f16) || f16FromF32(f16) === half;
    return !same16 || !(Number.isNaN(bf16) || bf16FromF32(bf16) === half);
  });
  expect(lost).toEqual([]);
});
