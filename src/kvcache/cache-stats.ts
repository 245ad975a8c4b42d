import type { CacheLevel } from "#kvcache/contents";
import type { CacheBooks, DiskBooks, Swap } from "#kvcache/levels";
import type { PrefixReuse } from "./prefix-reuse.ts";

/** One level's blocks now, and what happened to its contents since the start. */
export interface LevelStats {
  readonly level: CacheLevel;
  readonly free: number;
  readonly held: number;
  readonly cached: number;
  readonly total: number;
  /** Tokens that requests found here and did not compute. */
  readonly hitTokens: number;
  /** Blocks whose contents went to the next level. */
  readonly offloaded: number;
  /** Of these, the ones that made no room here: the disk wanted what comes before its blocks. */
  readonly copiedAhead: number;
  /** Blocks whose contents, or the start of them, came from here to the level above. */
  readonly onboarded: number;
  /** Blocks that made room here, and whose contents no other block has: they are forgotten. */
  readonly forgotten: number;
  /** Blocks that made room here, and whose contents another block still has. */
  readonly dropped: number;
  /** Blocks that were forgotten because what they continue was. */
  readonly orphaned: number;
  /** Durations that ended. */
  readonly expired: number;
}

/** All levels, and what concerns tables; blocks, since the start. */
export interface CacheStats {
  readonly levels: readonly LevelStats[];
  /** Shared blocks that were copied before a write. */
  readonly copiedBlocks: number;
  readonly swappedOutBlocks: number;
  readonly swappedInBlocks: number;
  readonly diskFailures: number;
}

/** Whose counters are put together. */
export interface StatsSources {
  readonly books: CacheBooks;
  readonly reuse: PrefixReuse;
  readonly swap: Swap;
  readonly disk: DiskBooks;
  readonly copiedBlocks: number;
}

/** The counters of a cache's parts as one. */
export function cacheStats(sources: StatsSources): CacheStats {
  const { books, reuse, swap, disk } = sources;
  const known: readonly CacheLevel[] = [0, 1, 2];
  const levels = known.flatMap((level): LevelStats[] => {
    const tier = books.tier(level);
    if (tier === null) return [];
    const counted = books.stats(level);
    return [
      {
        level,
        ...tier.counts(),
        ...counted,
        // Contents go to disk and come from there by way of host memory, as jobs.
        ...(level === 1 ? { offloaded: disk.stats.written } : {}),
        copiedAhead: level === 0 ? disk.stats.copiedAhead : 0,
        ...(level === 2 ? { onboarded: disk.stats.loaded } : {}),
        hitTokens: reuse.hitTokens(level),
      },
    ];
  });
  return {
    levels,
    copiedBlocks: sources.copiedBlocks,
    swappedOutBlocks: swap.swappedOutBlocks,
    swappedInBlocks: swap.swappedInBlocks,
    diskFailures: disk.stats.failures,
  };
}
