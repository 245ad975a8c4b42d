import { assert } from "#base";
import { BlockHeap } from "./block-heap.ts";
import type { BlockId } from "./block-id.ts";
import type { BlockRanking } from "./block-ranking.ts";
import type { EvictionPolicy } from "./eviction.ts";

/**
 * Lowest rank first, among equals the least recently released. A block is passed over while it is
 * covered, that is while it is the only one of a prefix that others continue: leaves go first,
 * whatever their rank. It is set aside when its turn comes and returns, to its own turn, when it
 * is uncovered, so each block is set aside at most once per release, and nothing is scanned.
 */
export class RankedEviction implements EvictionPolicy {
  readonly #ranking: BlockRanking;
  readonly #isCovered: (block: BlockId) => boolean;
  readonly #heap: BlockHeap;
  readonly #aside: Uint8Array;
  #asideCount = 0;
  /** Counts releases: the time of this order. */
  #turn = 0;

  /** With an `isCovered` that never says so, blocks go before what continues them. */
  constructor(blocks: number, ranking: BlockRanking, isCovered: (block: BlockId) => boolean) {
    this.#ranking = ranking;
    this.#isCovered = isCovered;
    this.#heap = new BlockHeap(blocks);
    this.#aside = new Uint8Array(blocks);
  }

  get count(): number {
    return this.#heap.count + this.#asideCount;
  }

  add(block: BlockId): void {
    assert(this.#aside[block] === 0, "Cannot order a block twice");
    this.#heap.push(block, this.#ranking.rankOf(block), this.#turn++);
  }

  remove(block: BlockId): void {
    if (this.#aside[block] === 1) this.#setAside(block, 0);
    else this.#heap.remove(block);
  }

  victim(): BlockId | null {
    for (let top = this.#heap.top(); top !== null; top = this.#heap.top()) {
      if (!this.#isCovered(top)) return top;
      this.#heap.remove(top);
      this.#setAside(top, 1);
    }
    return null;
  }

  taken(block: BlockId, index: number): void {
    this.#ranking.taken(block, index);
  }

  shared(block: BlockId): void {
    this.#ranking.shared?.(block);
  }

  prioritise(block: BlockId, priority: number): void {
    this.#ranking.prioritise?.(block, priority);
  }

  uncovered(block: BlockId): void {
    if (this.#aside[block] === 0) return;
    this.#setAside(block, 0);
    this.#heap.pushBack(block);
  }

  #setAside(block: BlockId, aside: 0 | 1): void {
    this.#aside[block] = aside;
    this.#asideCount += aside === 1 ? 1 : -1;
  }
}
