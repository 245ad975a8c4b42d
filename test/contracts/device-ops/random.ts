import { seedFrom, uniformAt } from "#base";

/** Numbers from a seed: the same on every run. */
export class RandomNumbers {
  readonly #seed: ReturnType<typeof seedFrom>;
  #drawn = 0;

  constructor(seed: number) {
    this.#seed = seedFrom(seed);
  }

  /** In [0, 1). */
  uniform(): number {
    return uniformAt(this.#seed, this.#drawn++);
  }

  /** In [0, end), a whole number. */
  below(end: number): number {
    return Math.floor(this.uniform() * end);
  }

  /** Roughly normal: the sum of four uniform draws, centred, of variance `scale` squared. */
  floats(count: number, scale = 1): Float32Array {
    return Float32Array.from({ length: count }, () => {
      const sum = this.uniform() + this.uniform() + this.uniform() + this.uniform();
      return (sum - 2) * Math.sqrt(3) * scale;
    });
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
