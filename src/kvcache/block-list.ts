import { assert, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";

const ABSENT = -1;

/**
 * An ordered set of blocks: a doubly linked list in a typed array, so that every operation costs
 * the same at any length and none allocates. A block's two links share a cache line.
 */
export class BlockList {
  /** Behind the last block's link: front = next of it, back = previous of it. */
  readonly #sentinel: number;
  /** [2 * (blocks + 1)] next and previous of each block. */
  readonly #links: Int32Array;
  #count = 0;

  /** An empty list that may hold the blocks 0 up to `blocks`. */
  constructor(blocks: number) {
    this.#sentinel = blocks;
    this.#links = new Int32Array(2 * (blocks + 1)).fill(ABSENT);
    this.#links[2 * blocks] = blocks;
    this.#links[2 * blocks + 1] = blocks;
  }

  get count(): number {
    return this.#count;
  }

  has(block: BlockId): boolean {
    return this.#next(block) !== ABSENT;
  }

  pushFront(block: BlockId): void {
    this.#link(block, this.#next(this.#sentinel));
  }

  pushBack(block: BlockId): void {
    this.#link(block, this.#sentinel);
  }

  /** The first block, which stays; null from an empty list. */
  front(): BlockId | null {
    const first = this.#next(this.#sentinel);
    return first === this.#sentinel ? null : blockId(first);
  }

  /** Takes the first block out; null from an empty list. */
  popFront(): BlockId | null {
    const first = this.front();
    if (first !== null) this.remove(first);
    return first;
  }

  /** Takes a block out from wherever it is; it must be here. */
  remove(block: BlockId): void {
    const next = this.#next(block);
    const previous = this.#previous(block);
    assert(next !== ABSENT, "Cannot take a block out of a list that does not have it");
    this.#links[2 * previous] = next;
    this.#links[2 * next + 1] = previous;
    this.#links[2 * block] = ABSENT;
    this.#links[2 * block + 1] = ABSENT;
    this.#count--;
  }

  /** Front to back. The list must not change meanwhile. */
  *[Symbol.iterator](): Generator<BlockId> {
    let at = this.#next(this.#sentinel);
    while (at !== this.#sentinel) {
      yield blockId(at);
      at = this.#next(at);
    }
  }

  #link(block: BlockId, before: number): void {
    assert(this.#next(block) === ABSENT, "Cannot put a block into a list twice");
    const previous = this.#previous(before);
    this.#links[2 * previous] = block;
    this.#links[2 * block + 1] = previous;
    this.#links[2 * block] = before;
    this.#links[2 * before + 1] = block;
    this.#count++;
  }

  #next(block: number): number {
    return intAt(this.#links, 2 * block);
  }

  #previous(block: number): number {
    return intAt(this.#links, 2 * block + 1);
  }
}
