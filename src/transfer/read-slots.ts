import { type Segment, type SharedMemory, segmentOf, sharedMemory } from "./shared-memory.ts";

const SLOTS = 4096;
const WORD_BYTES = 8;

/** Says in shared memory that a read's pieces are valid. */
export interface ReadSlot {
  readonly segment: Segment;
  readonly index: number;
  readonly token: bigint;
}

/**
 * A word of shared memory for each read that copies from shared memory: it holds the read's token
 * while the offer stands. A reader looks at it after each copy, so the owner can reuse its memory
 * at once, however slow the reader is.
 */
export class ReadSlots {
  readonly #memory: SharedMemory;
  readonly #words: BigUint64Array;
  readonly #segment: Segment | null;
  readonly #free: number[] = [];
  #nextToken = 1n;

  constructor() {
    this.#memory = sharedMemory(SLOTS * WORD_BYTES);
    const { buffer, byteOffset } = this.#memory.memory;
    this.#words = new BigUint64Array(buffer, byteOffset, SLOTS);
    this.#segment = segmentOf(this.#memory.memory);
    for (let index = SLOTS - 1; index >= 0; index--) this.#free.push(index);
  }

  /** Null: all are taken, or memory cannot be shared. */
  take(): ReadSlot | null {
    if (this.#segment === null) return null;
    const index = this.#free.pop();
    if (index === undefined) return null;
    const token = this.#nextToken++;
    Atomics.store(this.#words, index, token);
    return { segment: this.#segment, index, token };
  }

  /** From now on no copy of the read counts. */
  clear(slot: ReadSlot): void {
    Atomics.store(this.#words, slot.index, 0n);
    this.#free.push(slot.index);
  }

  release(): void {
    this.#memory.release();
  }
}
