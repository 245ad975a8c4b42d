import { philox, seedFrom } from "#base";

/** Chance as a parameter: the router seeds it from the system, the simulator from a number. */
export interface Rng {
  /** Uniform in [0, 1). */
  next(): number;
}

/** The same numbers for the same seed. */
export function seededRng(seed: number): Rng {
  const key = seedFrom(seed);
  let count = 0;
  return {
    next: () => {
      const [word] = philox([count >>> 0, Math.floor(count / 2 ** 32), 0, 1], key);
      count++;
      return word / 2 ** 32;
    },
  };
}

/** A whole number from 0 to `below - 1`, all equally likely. */
export function drawIndex(rng: Rng, below: number): number {
  return Math.min(Math.floor(rng.next() * below), below - 1);
}
