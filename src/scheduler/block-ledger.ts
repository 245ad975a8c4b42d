import { assert } from "#base";
import type { BlockId, BlockTable, KvCache, PrefixMatch } from "#kvcache";

/**
 * What a plan will do to the pool, counted without doing it: how many blocks remain available
 * behind the decisions taken so far. `begin` carries the same decisions out, and cannot fail then.
 */
export class BlockLedger {
  readonly #cache: KvCache;
  readonly #claimed = new Set<BlockId>();
  readonly #dropped = new Map<BlockId, number>();
  #available: number;

  constructor(cache: KvCache) {
    this.#cache = cache;
    this.#available = cache.availableBlocks;
  }

  get available(): number {
    return this.#available;
  }

  /** Sets blocks aside; they must be available. */
  take(blocks: number): void {
    assert(blocks <= this.#available, "Cannot plan with more blocks than there are");
    this.#available -= blocks;
  }

  /** Undoes `take`. */
  refund(blocks: number): void {
    this.#available += blocks;
  }

  /** How many blocks would stop being available if this prefix were held. */
  costOf(match: PrefixMatch): number {
    let cost = 0;
    for (const block of match.blocks) {
      if (this.#cache.holders(block) === 0 && !this.#claimed.has(block)) cost++;
    }
    return cost;
  }

  /** Counts a prefix as held. */
  claim(match: PrefixMatch): void {
    this.take(this.costOf(match));
    for (const block of match.blocks) {
      if (this.#cache.holders(block) === 0) this.#claimed.add(block);
    }
  }

  /** Counts a table as released: blocks that nobody else holds become available. */
  drop(table: BlockTable): void {
    for (let index = 0; index < table.length; index++) {
      const block = table.get(index);
      const dropped = (this.#dropped.get(block) ?? 0) + 1;
      this.#dropped.set(block, dropped);
      if (dropped === this.#cache.holders(block)) this.#available++;
    }
  }
}
