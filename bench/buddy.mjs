/**
 * Contiguous room for sequences, as engines before PagedAttention reserved it. A buddy allocator
 * (K. Knowlton 1965): chunks of powers of two, halved on demand, joined again when both are free.
 */
export class BuddyAllocator {
  /** By size: starts of free chunks. */
  #free = new Map();
  #chunkMax;

  /** Cuts `slots` into chunks of `chunkMax`, a power of two; smaller ones take the rest. */
  constructor(slots, chunkMax) {
    this.#chunkMax = chunkMax;
    let start = 0;
    for (let size = chunkMax; size >= 1; size >>= 1) {
      this.#free.set(size, new Set());
      for (; start + size <= slots; start += size) this.#free.get(size).add(start);
    }
  }

  /** A chunk of at least `slots`; null where none is left, however much is free in pieces. */
  allocate(slots) {
    const wanted = 2 ** Math.ceil(Math.log2(slots));
    let size = wanted;
    while (size <= this.#chunkMax && this.#free.get(size).size === 0) size *= 2;
    if (size > this.#chunkMax) return null;
    const [start] = this.#free.get(size);
    this.#free.get(size).delete(start);
    for (; size > wanted; size /= 2) this.#free.get(size / 2).add(start + size / 2);
    return { start, size: wanted };
  }

  release({ start, size }) {
    let [from, length] = [start, size];
    while (length < this.#chunkMax) {
      const buddy = from ^ length;
      if (!this.#free.get(length).delete(buddy)) break;
      from = Math.min(from, buddy);
      length *= 2;
    }
    this.#free.get(length).add(from);
  }
}
