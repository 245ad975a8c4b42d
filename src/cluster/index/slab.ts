import type { ByteBudget } from "./byte-budget.ts";

/** Entries of the first chunk when it begins, and of every chunk when it is full grown. */
const FIRST_ENTRIES = 64;
const CHUNK_BITS = 14;
const CHUNK_ENTRIES = 1 << CHUNK_BITS;

/**
 * Entries of a few 32-bit words under numbers from 0. They lie in chunks, so that growth copies
 * little: the first chunk doubles until it has the size of the others. What is released is given
 * out again; chunks are kept.
 */
export class Slab {
  readonly words: number;
  readonly #budget: ByteBudget;
  readonly #chunks: Uint32Array[] = [];
  #capacity = 0;
  #used = 0;
  /** Of the released entry that is given out next, plus one; each one's word 0 names another. */
  #free = 0;

  constructor(words: number, budget: ByteBudget) {
    this.words = words;
    this.#budget = budget;
  }

  /** The chunk that an entry lies in; valid until the next `allocate`. */
  chunkOf(id: number): Uint32Array {
    return this.#chunks[id >>> CHUNK_BITS]!;
  }

  /** Where an entry's words begin in its chunk. */
  placeOf(id: number): number {
    return (id & (CHUNK_ENTRIES - 1)) * this.words;
  }

  /** An entry of zeros; -1: the budget has no room. */
  allocate(): number {
    if (this.#free === 0) {
      if (this.#used === this.#capacity && !this.#grow()) return -1;
      return this.#used++;
    }
    const id = this.#free - 1;
    const chunk = this.chunkOf(id);
    const place = this.placeOf(id);
    this.#free = chunk[place]!;
    chunk.fill(0, place, place + this.words);
    return id;
  }

  release(id: number): void {
    this.chunkOf(id)[this.placeOf(id)] = this.#free;
    this.#free = id + 1;
  }

  #grow(): boolean {
    const [first] = this.#chunks;
    const entries = this.#capacity < CHUNK_ENTRIES ? this.#capacity || FIRST_ENTRIES : 0;
    const added = entries || CHUNK_ENTRIES;
    if (!this.#budget.take(added * this.words * 4)) return false;
    if (first !== undefined && this.#capacity < CHUNK_ENTRIES) {
      const larger = new Uint32Array(first.length * 2);
      larger.set(first);
      this.#chunks[0] = larger;
    } else {
      this.#chunks.push(new Uint32Array(added * this.words));
    }
    this.#capacity += added;
    return true;
  }
}
