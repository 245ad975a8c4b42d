import { assert, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";

const ABSENT = -1;

/**
 * An ordered set of blocks: a doubly linked list whose links lie in two typed arrays, so that every
 * operation costs the same at any length and none allocates.
 */
export class BlockList {
  /** Behind the last block's link: front = next of it, back = previous of it. */
  readonly #sentinel: number;
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #count = 0;

  /** An empty list that may hold the blocks 0 up to `blocks`. */
  constructor(blocks: number) {
    this.#sentinel = blocks;
    this.#next = new Int32Array(blocks + 1).fill(ABSENT);
    this.#previous = new Int32Array(blocks + 1).fill(ABSENT);
    this.#next[blocks] = blocks;
    this.#previous[blocks] = blocks;
  }

  get count(): number {
    return this.#count;
  }

  has(block: BlockId): boolean {
    return intAt(this.#next, block) !== ABSENT;
  }

  pushFront(block: BlockId): void {
    this.#link(block, intAt(this.#next, this.#sentinel));
  }

  pushBack(block: BlockId): void {
    this.#link(block, this.#sentinel);
  }

  /** The first block, which stays; null from an empty list. */
  front(): BlockId | null {
    const first = intAt(this.#next, this.#sentinel);
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
    const next = intAt(this.#next, block);
    const previous = intAt(this.#previous, block);
    assert(next !== ABSENT, "Cannot take a block out of a list that does not have it");
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#next[block] = ABSENT;
    this.#previous[block] = ABSENT;
    this.#count--;
  }

  /** Front to back. The list must not change meanwhile. */
  *[Symbol.iterator](): Generator<BlockId> {
    let at = intAt(this.#next, this.#sentinel);
    while (at !== this.#sentinel) {
      yield blockId(at);
      at = intAt(this.#next, at);
    }
  }

  #link(block: BlockId, before: number): void {
    assert(intAt(this.#next, block) === ABSENT, "Cannot put a block into a list twice");
    const previous = intAt(this.#previous, before);
    this.#next[previous] = block;
    this.#previous[block] = previous;
    this.#next[block] = before;
    this.#previous[before] = block;
    this.#count++;
  }
}
