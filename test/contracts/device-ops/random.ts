import { philox, seedFrom } from "#base";

/** Sums of four draws, one after another; those up to `count` are known. */
interface Sums {
  values: Float64Array;
  count: number;
}

/** Of the last seeds: hundreds of tests begin with the same few. */
const sumsOfSeed = new Map<number, Sums>();
const SEEDS_MAX = 8;

/** Numbers from a seed: the same on every run. */
export class RandomNumbers {
  readonly #seed: ReturnType<typeof seedFrom>;
  readonly #sums: Sums;
  #drawn = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
    this.#sums = sumsOfSeed.get(seed) ?? { values: new Float64Array(1024), count: 0 };
    sumsOfSeed.delete(seed);
    sumsOfSeed.set(seed, this.#sums);
    const [oldest] = sumsOfSeed.keys();
    if (sumsOfSeed.size > SEEDS_MAX && oldest !== undefined) sumsOfSeed.delete(oldest);
  }

  /** In [0, 1). */
  uniform(): number {
    return philox([this.#drawn++, 0, 0, 0], this.#seed)[0] / 2 ** 32;
  }

  /** In [0, end), a whole number. */
  below(end: number): number {
    return Math.floor(this.uniform() * end);
  }

  /** Roughly normal: the sum of four uniform draws, centred, of variance `scale` squared. */
  floats(count: number, scale = 1): Float32Array {
    const start = this.#drawn;
    this.#drawn += count;
    const sums = this.#sumsUpTo(this.#drawn).subarray(start);
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      out[i] = ((sums[i] ?? Number.NaN) / 2 ** 32 - 2) * Math.sqrt(3) * scale;
    }
    return out;
  }

  /** 0 up to `count`, shuffled. */
  order(count: number): number[] {
    const numbers = Array.from({ length: count }, (_, i) => i);
    for (let i = count - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [numbers[i], numbers[j]] = [numbers[j] ?? 0, numbers[i] ?? 0];
    }
    return numbers;
  }

  #sumsUpTo(end: number): Float64Array {
    const known = this.#sums;
    if (end > known.values.length) {
      const longer = new Float64Array(2 * end);
      longer.set(known.values);
      known.values = longer;
    }
    for (; known.count < end; known.count++) {
      const [a, b, c, d] = philox([known.count, 0, 0, 0], this.#seed);
      known.values[known.count] = a + b + c + d;
    }
    return known.values;
  }
}
