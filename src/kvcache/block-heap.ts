import { assert, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";

const ABSENT = -1;
/** Four children lie side by side: half the levels of a binary heap, at the same cache lines. */
const CHILDREN = 4;

/**
 * Blocks in a heap: the one of lowest rank on top, among equals the one of the earliest turn. Each
 * block's place is known, so any can be taken out. All in typed arrays sized once; O(log n) each.
 */
export class BlockHeap {
  readonly #heap: Int32Array;
  readonly #place: Int32Array;
  readonly #rank: Float64Array;
  readonly #turn: Float64Array;
  #count = 0;

  /** An empty heap that may hold the blocks 0 up to `blocks`. */
  constructor(blocks: number) {
    this.#heap = new Int32Array(blocks);
    this.#place = new Int32Array(blocks).fill(ABSENT);
    this.#rank = new Float64Array(blocks);
    this.#turn = new Float64Array(blocks);
  }

  get count(): number {
    return this.#count;
  }

  has(block: BlockId): boolean {
    return intAt(this.#place, block) !== ABSENT;
  }

  push(block: BlockId, rank: number, turn: number): void {
    this.#rank[block] = rank;
    this.#turn[block] = turn;
    this.pushBack(block);
  }

  /** Puts a block that was here before to where its rank and turn of then belong. */
  pushBack(block: BlockId): void {
    assert(!this.has(block), "Cannot put a block into a heap twice");
    this.#rise(block, this.#count++);
  }

  /** The first block, which stays; null from an empty heap. */
  top(): BlockId | null {
    return this.#count === 0 ? null : blockId(intAt(this.#heap, 0));
  }

  /** Takes a block out from wherever it is; it must be here. */
  remove(block: BlockId): void {
    const place = intAt(this.#place, block);
    assert(place !== ABSENT, "Cannot take a block out of a heap that does not have it");
    this.#place[block] = ABSENT;
    const last = intAt(this.#heap, --this.#count);
    if (last === block) return;
    this.#sink(last, place);
    this.#rise(last, intAt(this.#place, last));
  }

  #before(a: number, b: number): boolean {
    const ranks = (this.#rank[a] ?? 0) - (this.#rank[b] ?? 0);
    return ranks === 0 ? (this.#turn[a] ?? 0) < (this.#turn[b] ?? 0) : ranks < 0;
  }

  /** Up from `place` past all that come after it. */
  #rise(block: number, place: number): void {
    let at = place;
    while (at > 0) {
      const above = Math.floor((at - 1) / CHILDREN);
      const other = intAt(this.#heap, above);
      if (!this.#before(block, other)) break;
      this.#put(other, at);
      at = above;
    }
    this.#put(block, at);
  }

  /** Down from `place` past all that come before it. */
  #sink(block: number, place: number): void {
    let at = place;
    for (;;) {
      const child = this.#firstOf(at * CHILDREN + 1);
      if (child === ABSENT || !this.#before(intAt(this.#heap, child), block)) break;
      this.#put(intAt(this.#heap, child), at);
      at = child;
    }
    this.#put(block, at);
  }

  /** The place, among the children from `start` on, whose block comes first. */
  #firstOf(start: number): number {
    const end = Math.min(start + CHILDREN, this.#count);
    let first = start < end ? start : ABSENT;
    for (let at = start + 1; at < end; at++) {
      if (this.#before(intAt(this.#heap, at), intAt(this.#heap, first))) first = at;
    }
    return first;
  }

  #put(block: number, place: number): void {
    this.#heap[place] = block;
    this.#place[block] = place;
  }
}
