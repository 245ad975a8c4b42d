import { assert, intAt } from "#base";
import { type LevelBlockId, levelBlockId } from "#kvcache/contents";

const ABSENT = -1;
const WORD_BITS = 32;

/**
 * Several ordered sets of blocks; a block is in one of them or in none. Each is a ring through a
 * sentinel of its own, all in one typed array, so that removing a block does not need its queue,
 * nothing is allocated, and every operation costs the same at any length. A block's two links share
 * a cache line.
 */
export class BlockQueues {
  /** Links behind this place are the sentinels': front = next of it, back = previous of it. */
  readonly #blocks: number;
  /** [2 * (blocks + queues)] next and previous of each block. */
  readonly #links: Int32Array;
  /** A bit per queue: whether it has a block, so that finding the first one reads few words. */
  readonly #filled: Int32Array;
  #count = 0;

  /** Empty queues 0 up to `queues`, that may hold the blocks 0 up to `blocks`. */
  constructor(blocks: number, queues: number) {
    this.#blocks = blocks;
    this.#links = new Int32Array(2 * (blocks + queues)).fill(ABSENT);
    this.#filled = new Int32Array(Math.ceil(queues / WORD_BITS));
    for (let at = blocks; at < blocks + queues; at++) {
      this.#links[2 * at] = at;
      this.#links[2 * at + 1] = at;
    }
  }

  /** Blocks in all queues together. */
  get count(): number {
    return this.#count;
  }

  has(block: LevelBlockId): boolean {
    return this.#next(block) !== ABSENT;
  }

  pushFront(block: LevelBlockId, queue: number): void {
    this.#link(block, this.#next(this.#blocks + queue), queue);
  }

  pushBack(block: LevelBlockId, queue: number): void {
    this.#link(block, this.#blocks + queue, queue);
  }

  /** Removes a block; it must be in a queue. */
  remove(block: LevelBlockId): void {
    const next = this.#next(block);
    const previous = this.#previous(block);
    assert(next !== ABSENT, "Cannot take a block out of a list that does not have it");
    this.#links[2 * previous] = next;
    this.#links[2 * next + 1] = previous;
    this.#links[2 * block] = ABSENT;
    this.#links[2 * block + 1] = ABSENT;
    this.#count--;
    if (next === previous) this.#flipFilled(next - this.#blocks);
  }

  /** The first block of one queue, which stays; null from an empty queue. */
  front(queue: number): LevelBlockId | null {
    const first = this.#next(this.#blocks + queue);
    return first < this.#blocks ? levelBlockId(first) : null;
  }

  /** The first block of the lowest queue that has one; null where none has. */
  first(): LevelBlockId | null {
    for (let word = 0; word < this.#filled.length; word++) {
      const bits = intAt(this.#filled, word);
      if (bits === 0) continue;
      const lowest = WORD_BITS - 1 - Math.clz32(bits & -bits);
      return this.front(word * WORD_BITS + lowest);
    }
    return null;
  }

  /** One queue front to back. It must not change meanwhile. */
  *blocksOf(queue: number): Generator<LevelBlockId> {
    for (let at = this.#next(this.#blocks + queue); at < this.#blocks; at = this.#next(at)) {
      yield levelBlockId(at);
    }
  }

  #link(block: LevelBlockId, before: number, queue: number): void {
    assert(this.#next(block) === ABSENT, "Cannot put a block into a list twice");
    const previous = this.#previous(before);
    this.#links[2 * previous] = block;
    this.#links[2 * block + 1] = previous;
    this.#links[2 * block] = before;
    this.#links[2 * before + 1] = block;
    this.#count++;
    if (previous === before) this.#flipFilled(queue);
  }

  /** A queue got its first block, or lost its last: the sentinel was on both sides of it. */
  #flipFilled(queue: number): void {
    const word = queue >>> 5;
    this.#filled[word] = intAt(this.#filled, word) ^ (1 << queue);
  }

  #next(block: number): number {
    return intAt(this.#links, 2 * block);
  }

  #previous(block: number): number {
    return intAt(this.#links, 2 * block + 1);
  }
}
