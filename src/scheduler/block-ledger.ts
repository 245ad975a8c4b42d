import { assert } from "#base";
import {
  type BlockId,
  type BlockTable,
  type GroupMatch,
  type KvCache,
  matchParts,
  NO_MATCH,
  type PartialMatch,
  type PrefixMatch,
  withoutPartial,
} from "#kvcache";

/**
 * Counts the effect of a plan on the pool, without changing it: the blocks that remain available
 * after the decisions taken so far. `begin` carries the same decisions out, and cannot fail then.
 */
export class BlockLedger {
  readonly #cache: KvCache;
  // Most plans decode alone and need none of these: they are made when they are first asked for.
  #claimedMade: Set<BlockId> | null = null;
  #takenOverMade: Set<BlockId> | null = null;
  #leavingMade: Map<BlockId, number> | null = null;
  #copiedMade: Map<BlockTable, readonly BlockId[]> | null = null;
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
    const parts = matchParts(match);
    const taken = firstIndex(parts, (block) => this.#takenOver.has(block));
    if (taken >= 0) return taken === 0 ? NO_MATCH : rematch(taken);
    if (parts.some(({ partial }) => partial !== null && this.#takenOver.has(partial.block))) {
      return withoutPartial(match);
    }
    const further = match.further.map((part) => this.#copying(part));
    return { ...this.#copying(match), further };
  }

  /** How many blocks would stop being available if this prefix were held. */
  costOf(match: PrefixMatch): number {
    let cost = 0;
    this.#eachSeen(match, (block) => {
      if (!this.#claimed.has(block)) cost += this.#cache.claimCost(block);
    });
    for (const { partial } of matchParts(match)) cost += this.#costOfPartial(partial);
    return cost;
  }

  /** Counts a prefix as held. */
  claim(match: PrefixMatch): void {
    this.take(this.costOf(match));
    this.#eachSeen(match, (block) => this.#claimed.add(block));
    for (const { partial } of matchParts(match)) {
      if (partial === null) continue;
      // A partial copy from host memory leaves its source there: a sequence that claims that in
      // full pays for it.
      if (this.#cache.levelOf(partial.block) === 0) this.#claimed.add(partial.block);
      if (partial.takeover) this.#takenOver.add(partial.block);
    }
  }

  /**
   * Copies that writing `position` of a table needs: one for each of its blocks there that other
   * tables hold, too, and do not release. The last of several holders writes in place.
   */
  copiesFor(table: BlockTable, position: number): number {
    return this.#sharedAt(table, position).length;
  }

  /** Counts the table's shared blocks at `position` as copied. */
  copy(table: BlockTable, position: number): void {
    const shared = this.#sharedAt(table, position);
    this.take(shared.length);
    for (const block of shared) this.#leave(block);
    this.#copied.set(table, shared);
  }

  /** Undoes `copy`, where there was one. */
  undoCopy(table: BlockTable): void {
    const shared = this.#copied.get(table);
    if (shared === undefined) return;
    this.#copied.delete(table);
    for (const block of shared) {
      const leaving = this.#leaving.get(block) ?? 0;
      // Its last holders were preempted before: it counted as available, and is this table's again.
      if (leaving === this.#cache.holders(block)) this.#available--;
      this.#leaving.set(block, leaving - 1);
    }
    this.refund(shared.length);
  }

  /** Counts a table as released: blocks without other holders become available. */
  drop(table: BlockTable): void {
    for (const part of table.parts) {
      for (let index = 0; index < part.length; index++) {
        if (part.holds(index)) this.#leaveForGood(part.get(index));
      }
    }
  }

  /** Blocks that matches of this plan claim, or copy from. */
  get #claimed(): Set<BlockId> {
    this.#claimedMade ??= new Set();
    return this.#claimedMade;
  }

  /** Stored blocks that a table of this plan takes over: no other sequence finds them any more. */
  get #takenOver(): Set<BlockId> {
    this.#takenOverMade ??= new Set();
    return this.#takenOverMade;
  }

  /** By block: the number of its holders that are to release it. */
  get #leaving(): Map<BlockId, number> {
    this.#leavingMade ??= new Map();
    return this.#leavingMade;
  }

  /** By table: the shared blocks that it is to replace by copies of its own. */
  get #copied(): Map<BlockTable, readonly BlockId[]> {
    this.#copiedMade ??= new Map();
    return this.#copiedMade;
  }

  /** The match with a copy in place of a takeover where an earlier decision claims the block. */
  #copying<Match extends GroupMatch>(match: Match): Match {
    const { partial } = match;
    if (partial === null || !partial.takeover || !this.#claimed.has(partial.block)) return match;
    return { ...match, partial: { ...partial, takeover: false } };
  }

  #costOfPartial(partial: PartialMatch | null): number {
    if (partial === null) return 0;
    if (partial.takeover) return 1;
    // A copied block is held until it is copied, so that nothing evicts it meanwhile.
    const { block } = partial;
    const isCounted = this.#claimed.has(block) || this.#cache.levelOf(block) !== 0;
    return (isCounted ? 0 : this.#cache.claimCost(block)) + 1;
  }

  /** The table's blocks at `position` that other tables keep. */
  #sharedAt(table: BlockTable, position: number): readonly BlockId[] {
    const index = Math.floor(position / this.#cache.blockTokens);
    if (index >= table.length) return [];
    return table.parts
      .map((part) => part.get(index))
      .filter((block) => this.#cache.holders(block) - (this.#leaving.get(block) ?? 0) > 1);
  }

  /** The blocks of a match that are held: those that a later query sees. */
  #eachSeen(match: PrefixMatch, visit: (block: BlockId) => void): void {
    for (const [group, { blocks }] of matchParts(match).entries()) {
      const { from, to } = this.#cache.unseenBlocks(match.tokens, group);
      for (const [index, block] of blocks.entries()) {
        if (index < from || index >= to) visit(block);
      }
    }
  }

  #leave(block: BlockId): void {
    this.#leaving.set(block, (this.#leaving.get(block) ?? 0) + 1);
  }

  #leaveForGood(block: BlockId): void {
    this.#leave(block);
    if (this.#leaving.get(block) === this.#cache.holders(block)) this.#available++;
  }
}

/** The first index at which a part's block fulfils `test`; -1: none does. */
function firstIndex(parts: readonly GroupMatch[], test: (block: BlockId) => boolean): number {
  const found = parts.map(({ blocks }) => blocks.findIndex(test)).filter((index) => index >= 0);
  return found.length === 0 ? -1 : Math.min(...found);
}
