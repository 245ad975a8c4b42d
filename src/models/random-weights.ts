/** Random weights for a model without a checkpoint, for measurements. */
import { createHash } from "node:crypto";
import type { Seed } from "#base";
import { randomSource, type WeightSource } from "#devices";
import { bf16FromF32, elementCount, type Shape } from "#tensor";
import type { WeightSupply } from "./weight-loader.ts";

/** Range of a uniform distribution of deviation 1. */
const RANGE_OF_DEVIATION = Math.sqrt(3);

/**
 * Any requested tensor, determined by its name and `seed` alone: vectors of norms are 1, biases 0,
 * and a matrix has the deviation 1 / sqrt(columns), so that rows of deviation 1 become rows of
 * deviation 1: activations stay finite at any depth, and logits are spread.
 */
export function randomWeights(seed = 0): WeightSupply {
  return {
    size: 0,
    get: (name, shape) =>
      shape.length > 1
        ? randomSource(name, shape, { seed: seedOf(name, seed), range: rangeOf(shape) })
        : constantSource(name, shape, name.endsWith("bias") ? 0 : 1),
  };
}

function rangeOf(shape: Shape): number {
  return Math.fround(RANGE_OF_DEVIATION / Math.sqrt(shape.at(-1) ?? 1));
}

/** Each tensor name has a random stream of its own. */
function seedOf(name: string, seed: number): Seed {
  const digest = createHash("sha256").update(`${seed} ${name}`).digest();
  return { low: digest.readUInt32LE(0), high: digest.readUInt32LE(4) };
}

function constantSource(name: string, shape: Shape, value: number): WeightSource {
  return {
    name,
    dtype: "bf16",
    shape,
    bytes: () => {
      const elements = new Uint16Array(elementCount(shape)).fill(bf16FromF32(value));
      return new Uint8Array(elements.buffer);
    },
    discard() {},
  };
}
