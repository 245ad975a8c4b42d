import { assert } from "#base";
import type { LevelBlockId } from "#kvcache/contents";
import { BlockHeap } from "./block-heap.ts";
import { BlockList } from "./block-list.ts";
import type { BlockRanking } from "./block-ranking.ts";
import type { EvictionPolicy } from "./eviction.ts";

/**
 * Lowest rank first, among equals the least recently released. A block is passed over while it is
 * covered, that is while it is the only one of a prefix with children: leaves are evicted first,
 * whatever their rank. It is set aside when its turn comes and returns, to its own turn, when it is
 * uncovered, so each block is set aside at most once per release, and nothing is scanned. Where
 * only covered blocks are left, they are evicted in the order in which they were set aside.
 */
export class RankedEviction implements EvictionPolicy {
  readonly #ranking: BlockRanking;
  readonly #isCovered: (block: LevelBlockId) => boolean;
  readonly #heap: BlockHeap;
  readonly #aside: BlockList;
  /** Counts releases: the logical clock of this order. */
  #turn = 0;
  /** Counts `addFirst` calls, downwards: these go before all other releases. */
  #firstTurn = 0;

  /** With an `isCovered` that is always false, blocks may be evicted before their children. */
  constructor(blocks: number, ranking: BlockRanking, isCovered: (block: LevelBlockId) => boolean) {
    this.#ranking = ranking;
    this.#isCovered = isCovered;
    this.#heap = new BlockHeap(blocks);
    this.#aside = new BlockList(blocks);
  }

  get count(): number {
    return this.#heap.count + this.#aside.count;
  }

  add(block: LevelBlockId): void {
    this.#push(block, this.#turn++);
  }

  addFirst(block: LevelBlockId): void {
    this.#push(block, --this.#firstTurn);
  }

  remove(block: LevelBlockId): void {
    if (this.#aside.has(block)) this.#aside.remove(block);
    else this.#heap.remove(block);
  }

  victim(): LevelBlockId | null {
    for (let top = this.#heap.top(); top !== null; top = this.#heap.top()) {
      if (!this.#isCovered(top)) return top;
      this.#heap.remove(top);
      this.#aside.pushBack(top);
    }
    return this.#aside.front();
  }

  inOrder(): LevelBlockId[] {
    const heap = this.#heap;
    return [...heap, ...this.#aside].sort(
      (a, b) => heap.rankOf(a) - heap.rankOf(b) || heap.turnOf(a) - heap.turnOf(b),
    );
  }

  taken(block: LevelBlockId, index: number): void {
    this.#ranking.taken(block, index);
  }

  shared(block: LevelBlockId): void {
    this.#ranking.shared?.(block);
  }

  uncovered(block: LevelBlockId): void {
    if (!this.#aside.has(block)) return;
    this.#aside.remove(block);
    this.#heap.pushBack(block);
  }

  #push(block: LevelBlockId, turn: number): void {
    assert(!this.#aside.has(block), "Cannot order a block twice");
    this.#heap.push(block, this.#ranking.rankOf(block), turn);
  }
}
