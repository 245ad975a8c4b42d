/** Fills the tables of one step as the scheduler does: counted first, then held, then settled. */
import type { IntList } from "#base";
import {
  type BlockId,
  type GroupMatch,
  type KvCache,
  matchParts,
  type PrefixMatch,
  withoutPartial,
} from "#kvcache";
import type { Dice } from "./dice.ts";
import type { PretendSequence } from "./pretend-sequence.ts";

interface Item {
  readonly sequence: PretendSequence;
  readonly match: PrefixMatch;
  /** The first position to compute, and the one behind the last. */
  readonly start: number;
  readonly end: number;
}

/** Sequences that begin together. */
export class Admission {
  readonly #cache: KvCache;
  readonly #dice: Dice;
  readonly #items: Item[] = [];
  readonly #claimed = new Set<BlockId>();
  readonly #takenOver = new Set<BlockId>();
  #available: number;

  constructor(cache: KvCache, dice: Dice) {
    this.#cache = cache;
    this.#dice = dice;
    this.#available = cache.availableBlocks;
  }

  /** Plans to begin with as much of a prompt as the dice say, if it fits at all. */
  plan(sequence: PretendSequence): void {
    const { table, tokens } = sequence;
    const match = this.#usable(sequence, this.#cache.match(table.scope, tokens.view(), table.keys));
    if (this.#tryMatch(sequence, match)) return;
    if (match.partial !== null) this.#tryMatch(sequence, withoutPartial(match));
  }

  /** Holds all prefixes, then makes each usable, and makes known what is about to be computed. */
  begin(log: IntList | null): readonly Item[] {
    for (const { sequence, match } of this.#items) this.#cache.hold(sequence.table, match);
    for (const { sequence, match } of this.#items) this.#cache.settle(sequence.table, match);
    for (const { sequence, start, end } of this.#items) {
      const { table, tokens } = sequence;
      const shared = Math.floor(start / this.#cache.blockTokens);
      if (table.length < shared) this.#cache.extend(table, tokens.view(), shared);
      const missing = this.#cache.blocksFor(end) - table.length;
      if (!this.#cache.allocate(table, missing)) throw new Error("Room for a step was misjudged");
      this.#cache.publish(table, tokens, end, log);
      sequence.computed = end;
    }
    return this.#items;
  }

  #tryMatch(sequence: PretendSequence, match: PrefixMatch): boolean {
    const { blockTokens } = this.#cache;
    const { tokens } = sequence;
    const start = Math.max(match.tokens, this.#computedBefore(sequence) * blockTokens);
    const used = start > match.tokens ? withoutPartial(match) : match;
    const end = start + 1 + this.#dice.below(tokens.length - start);
    const more = this.#cache.blocksFor(end) - this.#cache.blocksFor(start);
    const cost = this.#costOf(used) + more * this.#cache.groupCount;
    if (cost > this.#available) return false;
    this.#available -= cost;
    for (const [group, { blocks, partial }] of matchParts(used).entries()) {
      const unseen = this.#cache.unseenBlocks(used.tokens, group);
      for (const [index, block] of blocks.entries()) {
        if (index < unseen.from || index >= unseen.to) this.#claimed.add(block);
      }
      const source = partial?.block;
      if (source !== undefined && this.#cache.levelOf(source) === 0) this.#claimed.add(source);
      if (partial?.takeover === true) this.#takenOver.add(partial.block);
    }
    this.#items.push({ sequence, match: used, start, end });
    return true;
  }

  /** Leading full blocks that an earlier item of the step computes; with a window nothing is shared. */
  #computedBefore({ table, tokens }: PretendSequence): number {
    if (this.#cache.hasWindow || table.keys !== null) return 0;
    const { blockTokens } = this.#cache;
    let most = 0;
    for (const { sequence: other, end } of this.#items) {
      if (other.table.scope !== table.scope || other.table.keys !== null) continue;
      let common = 0;
      const limit = Math.min(end, tokens.length - 1);
      while (common < limit && other.tokens.get(common) === tokens.get(common)) common++;
      most = Math.max(most, Math.floor(common / blockTokens));
    }
    return this.#cache.prefixCaching ? most : 0;
  }

  /** The part of a match that earlier items leave. */
  #usable({ table, tokens }: PretendSequence, match: PrefixMatch): PrefixMatch {
    const parts = matchParts(match);
    const isTaken = (block: BlockId) => this.#takenOver.has(block);
    const taken = match.blocks.findIndex((_, index) =>
      parts.some(({ blocks }) => blocks[index] !== undefined && isTaken(blocks[index])),
    );
    if (taken >= 0) {
      const head = tokens.view(0, taken * this.#cache.blockTokens + 1);
      return withoutPartial(this.#cache.match(table.scope, head, table.keys));
    }
    if (parts.some(({ partial }) => partial !== null && isTaken(partial.block))) {
      return withoutPartial(match);
    }
    const copying = <Part extends GroupMatch>(part: Part): Part =>
      part.partial === null || !this.#claimed.has(part.partial.block)
        ? part
        : { ...part, partial: { ...part.partial, takeover: false } };
    return { ...copying(match), further: match.further.map(copying) };
  }

  #costOf(match: PrefixMatch): number {
    let cost = 0;
    for (const [group, { blocks, partial }] of matchParts(match).entries()) {
      const unseen = this.#cache.unseenBlocks(match.tokens, group);
      for (const [index, block] of blocks.entries()) {
        const isSeen = index < unseen.from || index >= unseen.to;
        if (isSeen && !this.#claimed.has(block)) cost += this.#cache.claimCost(block);
      }
      if (partial === null) continue;
      const isCounted =
        this.#claimed.has(partial.block) || this.#cache.levelOf(partial.block) !== 0;
      const source = isCounted ? 0 : this.#cache.claimCost(partial.block);
      cost += source + (partial.takeover ? 0 : 1);
    }
    return cost;
  }
}
