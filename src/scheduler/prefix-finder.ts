/** Finds the prefix of a prompt that need not be computed. */
import { type BlockTable, matchParts, NO_MATCH, type PrefixMatch, withoutPartial } from "#kvcache";
import type { PlanDraft } from "./plan-draft.ts";
import type { Sequence } from "./sequence.ts";

/**
 * A prefix that need not be computed: `match`, and behind it the tokens that items of this step
 * compute.
 */
export interface SharedPrefix {
  readonly match: PrefixMatch;
  /** Tokens in both. */
  readonly tokens: number;
}

/** Looks prompts up in the cache, and among the items that are planned already. */
export class PrefixFinder {
  readonly #draft: PlanDraft;

  constructor(draft: PlanDraft) {
    this.#draft = draft;
  }

  /**
   * The prefix of a sequence's first `length` tokens that is stored, or that this step computes, if
   * longer.
   */
  find(sequence: Sequence, length: number): SharedPrefix {
    const skips = sequence.skipReadingPrefixCache && !sequence.group.forked;
    if (skips || !this.#draft.state.cache.prefixCaching) return { match: NO_MATCH, tokens: 0 };
    const { blockTable } = sequence;
    const tokens = sequence.tokens.view(0, length);
    const match = this.#usableMatch(blockTable, tokens);
    const computed = this.#computedBlocks(blockTable, tokens, match.blocks.length);
    const computedTokens = computed * this.#draft.state.cache.blockTokens;
    if (computedTokens <= match.tokens) return { match, tokens: match.tokens };
    return { match: withoutPartial(match), tokens: computedTokens };
  }

  /**
   * The stored prefix, without blocks that earlier items take over or that are not worth fetching.
   */
  #usableMatch(table: BlockTable, tokens: Int32Array): PrefixMatch {
    const { cache } = this.#draft.state;
    const cut = (blocks: number) =>
      cache.match(table.scope, tokens.subarray(0, blocks * cache.blockTokens + 1), table.keys);
    const match = cache.match(table.scope, tokens, table.keys);
    const worthy = this.#worthFetching(match) ?? match.blocks.length;
    return this.#draft.ledger.usable(worthy < match.blocks.length ? cut(worthy) : match, cut);
  }

  /** Leading blocks to take where those behind are slower to fetch than to compute; null: all. */
  #worthFetching(match: PrefixMatch): number | null {
    const { cache, estimates } = this.#draft.state;
    if (estimates === null || cache.poolStats(1).total === 0) return null;
    let first = match.blocks.length;
    let fetched = 0;
    for (const { blocks } of matchParts(match)) {
      for (const [index, block] of blocks.entries()) {
        if (cache.levelOf(block) === 0) continue;
        first = Math.min(first, index);
        fetched++;
      }
    }
    if (fetched === 0) return null;
    const start = first * cache.blockTokens;
    const end = match.blocks.length * cache.blockTokens;
    return estimates.loadPays({ level: 1, blocks: fetched, start, end }) ? null : first;
  }

  /** Leading full blocks of a prompt that items of this step compute, if more than `matched`. */
  #computedBlocks(table: BlockTable, tokens: Int32Array, matched: number): number {
    const { blockTokens, prefixCaching, hasWindow } = this.#draft.state.cache;
    // With a window, those items may release blocks before their last block is shared.
    if (!prefixCaching || hasWindow || table.keys !== null) return matched;
    const limit = Math.floor((tokens.length - 1) / blockTokens);
    let best = matched;
    for (const { sequence: other, start, count } of this.#draft.items) {
      // A step that computes one token rarely fills a block: not worth a look.
      if (count <= 1 || other.blockTable.scope !== table.scope) continue;
      if (other.blockTable.keys !== null) continue;
      const filled = Math.min(limit, Math.floor((start + count) / blockTokens));
      if (filled <= best) continue;
      const others = other.tokens.view(0, filled * blockTokens);
      best = Math.max(best, commonBlocks(others, tokens, blockTokens, filled, best));
    }
    return best;
  }
}

/** Leading equal blocks of two token lists, `most` at most; 0 if no more than `least` are. */
function commonBlocks(
  a: Int32Array,
  b: Int32Array,
  blockTokens: number,
  most: number,
  least: number,
): number {
  // Where prompts differ, they mostly differ in the first block that is not stored.
  for (let at = least * blockTokens; at < (least + 1) * blockTokens; at++) {
    if (a[at] !== b[at]) return 0;
  }
  let common = 0;
  while (common < most * blockTokens && a[common] === b[common]) common++;
  return Math.floor(common / blockTokens);
}
