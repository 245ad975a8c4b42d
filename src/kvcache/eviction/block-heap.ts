import { assert, intAt } from "#base";
import { type LevelBlockId, levelBlockId } from "#kvcache/contents";

const ABSENT = -1;
/** Four children lie side by side: half the levels of a binary heap, at the same cache lines. */
const CHILDREN = 4;

/**
 * A heap of blocks: the one of lowest rank on top, among equals the one of the earliest turn. Each
 * block's place is recorded, so any can be removed. All in typed arrays sized once; O(log n) each.
 */
export class BlockHeap {
  /** By block: its place, and its rank and turn, which are kept after its removal. */
  readonly #place: Int32Array;
  readonly #rank: Float64Array;
  readonly #turn: Float64Array;

  /** By place: the block, and its rank and turn again, so that comparing neighbours reads these. */
  readonly #heap: Int32Array;
  readonly #rankAt: Float64Array;
  readonly #turnAt: Float64Array;
  #count = 0;

  /** An empty heap that may hold the blocks 0 up to `blocks`. */
  constructor(blocks: number) {
    this.#place = new Int32Array(blocks).fill(ABSENT);
    this.#rank = new Float64Array(blocks);
    this.#turn = new Float64Array(blocks);
    this.#heap = new Int32Array(blocks);
    this.#rankAt = new Float64Array(blocks);
    this.#turnAt = new Float64Array(blocks);
  }

  get count(): number {
    return this.#count;
  }

  has(block: LevelBlockId): boolean {
    return intAt(this.#place, block) !== ABSENT;
  }

  push(block: LevelBlockId, rank: number, turn: number): void {
    this.#rank[block] = rank;
    this.#turn[block] = turn;
    this.pushBack(block);
  }

  /** Puts a removed block back with its former rank and turn. */
  pushBack(block: LevelBlockId): void {
    assert(!this.has(block), "Cannot put a block into a heap twice");
    this.#rise(block, this.#count++);
  }

  /** The first block, which stays; null from an empty heap. */
  top(): LevelBlockId | null {
    return this.#count === 0 ? null : levelBlockId(intAt(this.#heap, 0));
  }

  /** The block's rank, or the one that it had at its removal. */
  rankOf(block: LevelBlockId): number {
    return this.#rank[block] ?? 0;
  }

  /** The block's turn, or the one that it had at its removal. */
  turnOf(block: LevelBlockId): number {
    return this.#turn[block] ?? 0;
  }

  /** All blocks, in no order. The heap must not change meanwhile. */
  *[Symbol.iterator](): Generator<LevelBlockId> {
    for (let place = 0; place < this.#count; place++) yield levelBlockId(intAt(this.#heap, place));
  }

  /** Removes a block; it must be in the heap. */
  remove(block: LevelBlockId): void {
    const place = intAt(this.#place, block);
    assert(place !== ABSENT, "Cannot take a block out of a heap that does not have it");
    this.#place[block] = ABSENT;
    const last = intAt(this.#heap, --this.#count);
    if (last === block) return;
    this.#sink(last, place);
    this.#rise(last, intAt(this.#place, last));
  }

  /** Moves a block up from `place` past all that come after it. */
  #rise(block: number, place: number): void {
    const rank = this.#rank[block] ?? 0;
    const turn = this.#turn[block] ?? 0;
    let at = place;
    while (at > 0) {
      const above = Math.floor((at - 1) / CHILDREN);
      if (!this.#comesAfter(above, rank, turn)) break;
      this.#move(above, at);
      at = above;
    }
    this.#put(block, at, rank, turn);
  }

  /** Moves a block down from `place` past all that come before it. */
  #sink(block: number, place: number): void {
    const rank = this.#rank[block] ?? 0;
    const turn = this.#turn[block] ?? 0;
    let at = place;
    for (;;) {
      const child = this.#firstOf(at * CHILDREN + 1);
      if (child === ABSENT || this.#comesAfter(child, rank, turn)) break;
      this.#move(child, at);
      at = child;
    }
    this.#put(block, at, rank, turn);
  }

  /** The place, among the children from `start` on, whose block comes first. */
  #firstOf(start: number): number {
    const end = Math.min(start + CHILDREN, this.#count);
    if (start >= end) return ABSENT;
    let first = start;
    for (let at = start + 1; at < end; at++) {
      if (this.#comesAfter(first, this.#rankAt[at] ?? 0, this.#turnAt[at] ?? 0)) first = at;
    }
    return first;
  }

  #comesAfter(place: number, rank: number, turn: number): boolean {
    const rankThere = this.#rankAt[place] ?? 0;
    return rankThere === rank ? (this.#turnAt[place] ?? 0) > turn : rankThere > rank;
  }

  #move(from: number, to: number): void {
    this.#put(intAt(this.#heap, from), to, this.#rankAt[from] ?? 0, this.#turnAt[from] ?? 0);
  }

  #put(block: number, place: number, rank: number, turn: number): void {
    this.#heap[place] = block;
    this.#rankAt[place] = rank;
    this.#turnAt[place] = turn;
    this.#place[block] = place;
  }
}
