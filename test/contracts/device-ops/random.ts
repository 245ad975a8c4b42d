import { philox, seedFrom } from "#base";

/** Numbers from a seed: the same on every run. */
export class RandomNumbers {
  readonly #seed: ReturnType<typeof seedFrom>;
  #drawn = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
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
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) {
      const [a, b, c, d] = philox([this.#drawn++, 0, 0, 0], this.#seed);
      out[i] = ((a + b + c + d) / 2 ** 32 - 2) * Math.sqrt(3) * scale;
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
}
