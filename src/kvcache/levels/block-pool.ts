import { assert, IntList, intAt } from "#base";
import { type LevelBlockId, levelBlockId } from "#kvcache/contents";
import type { EvictionPolicy } from "#kvcache/eviction";

/** How many blocks are in each state. Their sum is `total`, always. */
export interface PoolStats {
  readonly free: number;
  readonly held: number;
  readonly cached: number;
  readonly total: number;
}

/**
 * Counts the holders of every block. A block with holders is *held*; without, it is *cached* if its
 * contents are published, else *free*. All operations cost the same at any pool size.
 */
export class BlockPool {
  readonly total: number;
  readonly #eviction: EvictionPolicy;
  readonly #onEvict: (block: LevelBlockId) => void;
  readonly #holders: Int32Array;
  readonly #published: Uint8Array;
  /** A stack: the block given back last is still warm in the processor's caches. */
  readonly #free: IntList;
  #evictions = 0;

  /**
   * `onEvict` receives each cached block that is taken for other contents. The block is not cached
   * any more by then, so the blocks that `onEvict` forgets cannot include it.
   */
  constructor(blocks: number, eviction: EvictionPolicy, onEvict: (block: LevelBlockId) => void) {
    assert(Number.isInteger(blocks) && blocks > 0, "Cannot make a pool without blocks");
    this.total = blocks;
    this.#eviction = eviction;
    this.#onEvict = onEvict;
    this.#holders = new Int32Array(blocks);
    this.#published = new Uint8Array(blocks);
    this.#free = new IntList(Array.from({ length: blocks }, (_, index) => blocks - 1 - index));
  }

  /** Blocks that `allocate` can take: free ones, then cached ones. */
  get availableCount(): number {
    return this.#free.length + this.#eviction.count;
  }

  /** Cached blocks that were evicted, since the start. */
  get evictions(): number {
    return this.#evictions;
  }

  stats(): PoolStats {
    const free = this.#free.length;
    const cached = this.#eviction.count;
    return { free, held: this.total - free - cached, cached, total: this.total };
  }

  holders(block: LevelBlockId): number {
    return intAt(this.#holders, block);
  }

  isPublished(block: LevelBlockId): boolean {
    return this.#published[block] === 1;
  }

  /**
   * Appends `count` blocks with one holder each to `into`; false, and nothing changes, if too few.
   */
  allocate(count: number, into: IntList): boolean {
    assert(Number.isInteger(count) && count >= 0, "Cannot allocate a part of a block");
    if (count > this.availableCount) return false;
    for (let taken = 0; taken < count; taken++) {
      const block = this.take(into.length);
      assert(block !== null, "Cannot take a block: the order of eviction names none");
      into.push(block);
    }
    return true;
  }

  /** A block with one holder, to be the `index`-th of a table; null: there is none. */
  take(index: number): LevelBlockId | null {
    const block = this.#free.length > 0 ? levelBlockId(this.#free.pop()) : this.#evict();
    if (block === null) return null;
    this.#holders[block] = 1;
    this.#eviction.taken?.(block, index);
    return block;
  }

  /** Adds a holder to a block that is held or cached. */
  retain(block: LevelBlockId): void {
    const holders = this.holders(block);
    if (holders === 0) {
      assert(this.#published[block] === 1, "Cannot retain a free block");
      this.#eviction.remove(block);
    }
    this.#holders[block] = holders + 1;
    this.#eviction.shared?.(block);
  }

  /** Sets a held block's priority, for policies that use it. */
  prioritise(block: LevelBlockId, priority: number): void {
    assert(this.holders(block) > 0, "Cannot prioritise a block that has no holder");
    this.#eviction.prioritise?.(block, priority);
  }

  /** Changes a cached block's priority: it goes behind its new equals. */
  reorder(block: LevelBlockId, priority: number): void {
    this.#eviction.prioritise?.(block, priority);
  }

  /** Makes a cached block the next to be evicted. */
  demote(block: LevelBlockId): void {
    this.#eviction.remove(block);
    this.#eviction.prioritise?.(block, 0);
    this.#eviction.addFirst(block);
  }

  /** Removes a holder; without holders the block is cached if published, else free. */
  release(block: LevelBlockId): void {
    const holders = this.holders(block);
    assert(holders > 0, "Cannot release a block that has no holder");
    this.#holders[block] = holders - 1;
    if (holders > 1) return;
    if (this.#published[block] === 1) this.#eviction.add(block);
    else this.#free.push(block);
  }

  /** The held block's contents can be found from now on. */
  publish(block: LevelBlockId): void {
    assert(this.holders(block) > 0, "Cannot publish a block that has no holder");
    this.#published[block] = 1;
  }

  /** The block's contents cannot be found any more. */
  unpublish(block: LevelBlockId): void {
    assert(this.#published[block] === 1, "Cannot unpublish a block that is not published");
    this.#published[block] = 0;
    if (this.holders(block) > 0) return;
    this.#eviction.remove(block);
    this.#free.push(block);
  }

  /** Frees every cached block. Their contents must not be findable any more. */
  freeCached(): void {
    for (let block = this.#eviction.victim(); block !== null; block = this.#eviction.victim()) {
      this.unpublish(block);
    }
  }

  /** Checks the pool against the holders counted from the tables. Costs a scan; for tests. */
  audit(expectedHolders: Int32Array): void {
    const free = new Set(this.#free.view());
    assert(free.size === this.#free.length, "A block is in the free stack twice");
    let cached = 0;
    for (let block = 0; block < this.total; block++) {
      const holders = intAt(this.#holders, block);
      assert(
        holders === intAt(expectedHolders, block),
        `Block ${block} counts ${holders} holders, tables hold it ${expectedHolders[block]} times`,
      );
      const isCached = holders === 0 && this.#published[block] === 1;
      if (isCached) cached++;
      const isFree = holders === 0 && !isCached;
      assert(free.has(block) === isFree, `Block ${block} is in the wrong list`);
    }
    assert(cached === this.#eviction.count, "Cached blocks and the eviction order differ");
  }

  #evict(): LevelBlockId | null {
    const victim = this.#eviction.victim();
    if (victim === null) return null;
    this.#eviction.remove(victim);
    this.#published[victim] = 0;
    this.#holders[victim] = 1;
    this.#evictions++;
    this.#onEvict(victim);
    return victim;
  }
}
