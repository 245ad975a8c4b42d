import type { IntList } from "#base";
import {
  type BlockId,
  blockId,
  type CacheLevel,
  type KvEventDiff,
  type LevelBlockId,
  levelBlockId,
} from "#kvcache/contents";
import {
  type BlockLease,
  type BlockRetention,
  createEviction,
  type EvictionPolicy,
  type EvictionPolicyName,
  PRIORITY_MIN,
  RetentionBook,
} from "#kvcache/eviction";
import { BlockPool, type PoolStats } from "./block-pool.ts";

/** One level's range of block ids, and its eviction policy. */
export interface LevelShape {
  readonly level: CacheLevel;
  /** The level's first block id. */
  readonly first: number;
  readonly blocks: number;
  readonly evictionPolicy: EvictionPolicyName;
}

/**
 * One level of the cache: its pool, the retention of its blocks, and their eviction order. Its
 * interface uses `BlockId`, its parts `LevelBlockId`; no other class converts between both.
 */
export class LevelBooks {
  readonly level: CacheLevel;
  readonly first: number;
  readonly blocks: number;
  readonly #pool: BlockPool;
  readonly #order: EvictionPolicy;
  readonly #book: RetentionBook;

  /**
   * `isCovered`: see content-index.ts. `onEvict` receives each cached block that is taken for other
   * contents: it counts as held already, and has its old contents until `onEvict` returns.
   */
  constructor(
    shape: LevelShape,
    isCovered: (block: BlockId) => boolean,
    onEvict: (block: BlockId) => void,
  ) {
    this.level = shape.level;
    this.first = shape.first;
    this.blocks = shape.blocks;
    this.#book = new RetentionBook(shape.blocks);
    this.#order = createEviction(shape.evictionPolicy, shape.blocks, (block) =>
      isCovered(this.#inCache(block)),
    );
    this.#pool = new BlockPool(shape.blocks, this.#order, (block) => onEvict(this.#inCache(block)));
  }

  /** Blocks that can be allocated: free ones, then cached ones. */
  get availableCount(): number {
    return this.#pool.availableCount;
  }

  /** Cached blocks that were taken for other contents, since the start. */
  get evictions(): number {
    return this.#pool.evictions;
  }

  poolStats(): PoolStats {
    return this.#pool.stats();
  }

  /** Whether blocks of lower priority are evicted before others. */
  get usesPriorities(): boolean {
    return this.#order.prioritise !== undefined;
  }

  /** Cached blocks, the one to evict first first, in their own places. Costs a scan. */
  cachedInOrder(): BlockId[] {
    return this.#order.inOrder().map((own) => this.#inCache(own));
  }

  /** The cached block to be evicted next; null: a free one would be taken, or there is none. */
  nextVictim(): BlockId | null {
    const victim = this.#pool.stats().free > 0 ? null : this.#order.victim();
    return victim === null ? null : this.#inCache(victim);
  }

  has(block: BlockId): boolean {
    return block >= this.first && block < this.first + this.blocks;
  }

  holders(block: BlockId): number {
    return this.#pool.holders(this.#inLevel(block));
  }

  isPublished(block: BlockId): boolean {
    return this.#pool.isPublished(this.#inLevel(block));
  }

  priorityOf(block: BlockId): number {
    return this.#book.priorityOf(this.#inLevel(block));
  }

  /** A block's current retention. */
  leaseOf(block: BlockId): BlockLease {
    return this.#book.leaseOf(this.#inLevel(block));
  }

  /**
   * Appends `count` blocks with one holder each to `into`; false, and nothing changes, if too few.
   */
  allocate(count: number, into: IntList): boolean {
    const start = into.length;
    if (!this.#pool.allocate(count, into)) return false;
    for (let index = start; index < into.length; index++) {
      const own = levelBlockId(into.get(index));
      this.#book.reset(own);
      if (this.first > 0) into.set(index, this.#inCache(own));
    }
    return true;
  }

  /** One block with one holder, to be the `index`-th of its history; null: there is none. */
  take(index = 0): BlockId | null {
    const own = this.#pool.take(index);
    if (own === null) return null;
    this.#book.reset(own);
    return this.#inCache(own);
  }

  /** Adds a holder to a block that is held or cached. */
  retain(block: BlockId): void {
    const own = this.#inLevel(block);
    this.#book.retained(own);
    this.#pool.retain(own);
  }

  /** Adds a holder that only keeps the block where it is, and uses it for no request. */
  pin(block: BlockId): void {
    this.#pool.retain(this.#inLevel(block));
  }

  /** Removes a holder; without holders the block is cached if published, else free. */
  release(block: BlockId, nowMs: number): void {
    const own = this.#inLevel(block);
    this.#pool.release(own);
    if (this.#pool.holders(own) > 0 || !this.#pool.isPublished(own)) return;
    this.#book.released(own, nowMs);
  }

  /**
   * Applies the retention of a held block's newest holder. Returns its change of priority, or null.
   */
  claim(block: BlockId, retention: BlockRetention): KvEventDiff | null {
    const own = this.#inLevel(block);
    const change = this.#book.claim(own, retention);
    if (change !== null) this.#pool.prioritise(own, change.newValue);
    return change;
  }

  /** Applies the lease of the block whose contents a held, unpublished block got. */
  inherit(block: BlockId, lease: BlockLease): void {
    const own = this.#inLevel(block);
    this.#book.inherit(own, lease);
    this.#pool.prioritise(own, lease.priority);
  }

  /** Ends the durations due by `nowMs`; `expired` receives each block and its old priority. */
  expire(nowMs: number, expired: (block: BlockId, oldPriority: number) => void): void {
    this.#book.expire(nowMs, (own, oldPriority) => {
      this.#pool.reorder(own, this.#book.priorityOf(own));
      expired(this.#inCache(own), oldPriority);
    });
  }

  /** The held block's contents can be found from now on. */
  publish(block: BlockId): void {
    this.#pool.publish(this.#inLevel(block));
  }

  /** Unpublishes the block, if it is published; a cached block is free then. */
  forget(block: BlockId): void {
    const own = this.#inLevel(block);
    if (!this.#pool.isPublished(own)) return;
    this.#book.retained(own);
    this.#pool.unpublish(own);
  }

  /** A block that may have been covered is not covered any more. */
  uncovered(block: BlockId): void {
    this.#order.uncovered?.(this.#inLevel(block));
  }

  /** Frees every cached block; the index must have forgotten them before. */
  freeCached(): void {
    this.#pool.freeCached();
    this.#book.clear();
  }

  /** Gives a cached block the lowest priority and makes it the next to be evicted. */
  demote(block: BlockId): void {
    this.#book.setPriority(this.#inLevel(block), PRIORITY_MIN);
    this.#pool.demote(this.#inLevel(block));
  }

  /** Checks the pool against the holders counted from the tables, by shared id. For tests. */
  audit(expectedHolders: Int32Array): void {
    this.#pool.audit(expectedHolders.subarray(this.first, this.first + this.blocks));
  }

  #inLevel(block: BlockId): LevelBlockId {
    return levelBlockId(block - this.first);
  }

  #inCache(block: LevelBlockId): BlockId {
    return blockId(block + this.first);
  }
}
