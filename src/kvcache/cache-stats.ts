import type { CacheLevel } from "#kvcache/contents";
import type { CacheBooks, DiskBooks, PeerBooks, PeerStats, Swap } from "#kvcache/levels";
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
  /**
   * Of these, copies that freed no block here: they were made to write prefixes of blocks on disk.
   */
  readonly copiedAhead: number;
  /** Blocks whose contents, whole or in part, were copied from here to the level above. */
  readonly onboarded: number;
  /** Evicted blocks whose contents no other block had: the contents are forgotten. */
  readonly forgotten: number;
  /** Evicted blocks whose contents another block still has. */
  readonly dropped: number;
  /** Blocks that were forgotten because a prefix of theirs was. */
  readonly orphaned: number;
  /** Retention durations that ended. */
  readonly expired: number;
}

/** Statistics of all levels and of tables, since the start; blocks where not named otherwise. */
export interface CacheStats {
  readonly levels: readonly LevelStats[];
  /** Shared blocks that were copied before a write. */
  readonly copiedBlocks: number;
  readonly swappedOutBlocks: number;
  readonly swappedInBlocks: number;
  readonly diskFailures: number;
  /** Blocks to other engines, and from them. */
  readonly peers: PeerStats;
  /** Device blocks times milliseconds that they were held, by all sequences and transfers. */
  readonly heldBlockMs: number;
}

/** The parts whose statistics are collected. */
export interface StatsSources {
  readonly books: CacheBooks;
  readonly reuse: PrefixReuse;
  readonly swap: Swap;
  readonly disk: DiskBooks;
  readonly peers: PeerBooks;
  readonly copiedBlocks: number;
}

/** Collects the statistics of a cache's parts. */
export function cacheStats(sources: StatsSources): CacheStats {
  const { books, reuse, swap, disk, peers } = sources;
  const known: readonly CacheLevel[] = [0, 1, 2];
  const levels = known.flatMap((level): LevelStats[] => {
    const own = books.booksAt(level);
    if (own === null) return [];
    const counted = books.stats(level);
    return [
      {
        level,
        ...own.poolStats(),
        ...counted,
        // Disk transfers run as jobs, through host memory.
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
    peers: peers.stats,
    heldBlockMs: books.occupation.totalBlockMs,
  };
}
