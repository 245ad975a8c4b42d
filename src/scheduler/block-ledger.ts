import { assert } from "#base";
import { type BlockId, type BlockTable, type KvCache, NO_MATCH, type PrefixMatch } from "#kvcache";

/**
 * Counts the effect of a plan on the pool, without changing it: the blocks that remain available
 * after the decisions taken so far. `begin` carries the same decisions out, and cannot fail then.
 */
export class BlockLedger {
  readonly #cache: KvCache;
  /** Blocks that matches of this plan claim, or copy from. */
  readonly #claimed = new Set<BlockId>();
  /** Stored blocks that a table of this plan takes over: no other sequence finds them any more. */
  readonly #takenOver = new Set<BlockId>();
  /** By block: the number of its holders that are to release it. */
  readonly #leaving = new Map<BlockId, number>();
  /** By table: the shared block that it is to replace by a copy of its own. */
  readonly #copied = new Map<BlockTable, BlockId>();
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

  /**
   * The part of a match that earlier decisions leave: a block that another table takes over is not
   * usable, and one that is claimed already is copied instead of taken over.
   */
  usable(match: PrefixMatch, rematch: (blocks: number) => PrefixMatch): PrefixMatch {
    if (this.#takenOver.size === 0 && this.#claimed.size === 0) return match;
    const taken = match.blocks.findIndex((block) => this.#takenOver.has(block));
    if (taken >= 0) return taken === 0 ? NO_MATCH : rematch(taken);
    const { partial } = match;
    if (partial === null) return match;
    if (this.#takenOver.has(partial.block)) {
      return { ...match, partial: null, tokens: match.tokens - partial.tokens };
    }
    if (!partial.takeover || !this.#claimed.has(partial.block)) return match;
    return { ...match, partial: { ...partial, takeover: false } };
  }

  /** How many blocks would stop being available if this prefix were held. */
  costOf(match: PrefixMatch): number {
    let cost = 0;
    this.#eachSeen(match, (block) => {
      if (!this.#claimed.has(block)) cost += this.#cache.claimCost(block);
    });
    const { partial } = match;
    if (partial === null) return cost;
    if (partial.takeover) return cost + 1;
    // A copied block is held until it is copied, so that nothing evicts it meanwhile.
    const { block } = partial;
    const isCounted = this.#claimed.has(block) || this.#cache.levelOf(block) !== 0;
    return cost + (isCounted ? 0 : this.#cache.claimCost(block)) + 1;
  }

  /** Counts a prefix as held. */
  claim(match: PrefixMatch): void {
    this.take(this.costOf(match));
    this.#eachSeen(match, (block) => this.#claimed.add(block));
    const { partial } = match;
    if (partial === null) return;
    // A partial copy from host memory leaves its source there: a sequence that claims that in full
    // pays for it.
    if (this.#cache.levelOf(partial.block) === 0) this.#claimed.add(partial.block);
    if (partial.takeover) this.#takenOver.add(partial.block);
  }

  /**
   * Whether writing `position` of a table needs a copy of its block: other tables hold the block,
   * too, and do not release it. The last of several holders writes in place.
   */
  needsCopy(table: BlockTable, position: number): boolean {
    const index = Math.floor(position / this.#cache.blockTokens);
    if (index >= table.length) return false;
    const block = table.get(index);
    return this.#cache.holders(block) - (this.#leaving.get(block) ?? 0) > 1;
  }

  /** Counts the table's block at `position` as copied. */
  copy(table: BlockTable, position: number): void {
    const block = table.get(Math.floor(position / this.#cache.blockTokens));
    this.take(1);
    this.#leave(block);
    this.#copied.set(table, block);
  }

  /** Undoes `copy`, where there was one. */
  undoCopy(table: BlockTable): void {
    const block = this.#copied.get(table);
    if (block === undefined) return;
    this.#copied.delete(table);
    const leaving = this.#leaving.get(block) ?? 0;
    // Its last holders were preempted before: it counted as available, and is this table's again.
    if (leaving === this.#cache.holders(block)) this.#available--;
    this.#leaving.set(block, leaving - 1);
    this.refund(1);
  }

  /** Counts a table as released: blocks without other holders become available. */
  drop(table: BlockTable): void {
    for (let index = 0; index < table.length; index++) {
      if (table.holds(index)) this.#leaveForGood(table.get(index));
    }
  }

  /** The blocks of a match that are held: those that a later query sees. */
  #eachSeen(match: PrefixMatch, visit: (block: BlockId) => void): void {
    const { from, to } = this.#cache.unseenBlocks(match.tokens);
    match.blocks.forEach((block, index) => {
      if (index < from || index >= to) visit(block);
    });
  }

  #leave(block: BlockId): void {
    this.#leaving.set(block, (this.#leaving.get(block) ?? 0) + 1);
  }

  #leaveForGood(block: BlockId): void {
    this.#leave(block);
    if (this.#leaving.get(block) === this.#cache.holders(block)) this.#available++;
  }
}
