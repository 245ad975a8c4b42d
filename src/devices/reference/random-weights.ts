/** Weights without a file: pseudo-random numbers, the same on every device. */
import { philox } from "#base";
import { bf16FromF32, elementCount, type Shape } from "#tensor";
import type { RandomElements, WeightSource } from "../device.ts";

/** Elements from one Philox block. */
const LANES = 4;

/**
 * A bf16 source of random elements: a device may generate them itself instead of reading `bytes`.
 */
export function randomSource(name: string, shape: Shape, random: RandomElements): WeightSource {
  return {
    name,
    dtype: "bf16",
    shape,
    random,
    bytes: () => new Uint8Array(randomElements(random, elementCount(shape)).buffer),
    discard() {},
  };
}

/**
 * The first `count` elements in bf16. Element i is word i % 4 of Philox block floor(i / 4): its
 * upper 24 bits as a number in [-1, 1), times `range` in f32, rounded to bf16.
 */
export function randomElements({ seed, range }: RandomElements, count: number): Uint16Array {
  const out = new Uint16Array(count);
  for (let first = 0; first < count; first += LANES) {
    const words = philox([first / LANES, 0, 0, 0], seed);
    words.forEach((word, lane) => {
      // A typed array ignores writes past its end.
      out[first + lane] = bf16FromF32(Math.fround(((word >>> 8) / 0x800000 - 1) * range));
    });
  }
  return out;
}
