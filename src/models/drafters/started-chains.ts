import type { DeviceTensor } from "#devices";

/** Elements of a level's tokens begin at multiples of this: copies of devices are aligned. */
const ALIGNMENT = 64;

/** Chains whose computation is enqueued, one for each wish. */
export interface StartedChains {
  /** [N] i32: their tokens, among others. Valid until the network drafts again. */
  readonly tokens: DeviceTensor;
  /** Elements of `tokens` from the first to the last that is a token of theirs. */
  readonly count: number;
  /** The element that is a chain's `place`-th drafted token, from 0 on. */
  placeOf(chain: number, place: number): number;
  /** All tokens of each chain, when all enqueued work is done. To be called once. */
  take(): Promise<readonly Int32Array[]>;
}

/** Elements from one level's tokens to what follows them. */
export function levelStride(rows: number): number {
  return Math.ceil(rows / ALIGNMENT) * ALIGNMENT;
}
