/** Combines the statistics of the cache and of its movers for metrics and health. */

import type { CacheLevelReport, CacheReport, MoveReport } from "#engine/protocol";
import type { FetchedPieces, MoveStats, TrafficStats } from "#engine/tiers";
import type { KvCache, LevelStats } from "#kvcache";
import type { PiecesByWay } from "#transfer";

const MS_PER_SECOND = 1000;
const LEVEL_NAMES = ["device", "host", "disk"] as const;
const NO_TRAFFIC: TrafficStats = { count: 0, bytes: 0, ms: 0, failures: 0 };

/** A cache whose moves are counted. */
export interface CountedMemory {
  readonly cache: Pick<KvCache, "stats">;
  stats(): {
    readonly copy: MoveStats;
    readonly offload: MoveStats;
    readonly onboard: MoveStats;
    readonly sent: PiecesByWay;
    readonly fetched: FetchedPieces;
    readonly disk: { readonly reads: TrafficStats; readonly writes: TrafficStats } | null;
  };
}

/**
 * Reads some thirty numbers, without a scan: made when they are due, not in every step.
 * `bytesPerBlock`: of a block in all stages, which hold it as long as the first one.
 */
export function cacheStats(memory: CountedMemory, bytesPerBlock: number): CacheReport {
  const { levels, heldBlockMs, ...rest } = memory.cache.stats();
  const { copy, offload, onboard, disk, sent, fetched } = memory.stats();
  return {
    ...rest,
    sent,
    fetched: { pieces: fetched.pieces, seconds: fetched.ms / MS_PER_SECOND },
    kvByteSeconds: (heldBlockMs * bytesPerBlock) / MS_PER_SECOND,
    levels: levels.map(levelStats),
    moves: {
      copy: moveStats(copy),
      offload: moveStats(offload),
      onboard: moveStats(onboard),
      diskWrite: trafficStats(disk?.writes ?? NO_TRAFFIC),
      diskRead: trafficStats(disk?.reads ?? NO_TRAFFIC),
    },
  };
}

function levelStats(stats: LevelStats): CacheLevelReport {
  return { ...stats, level: LEVEL_NAMES[stats.level] };
}

function moveStats({ blocks, bytes, ms }: MoveStats): MoveReport {
  return { blocks, bytes, seconds: ms / MS_PER_SECOND };
}

function trafficStats({ count, bytes, ms }: TrafficStats): MoveReport {
  return { blocks: count, bytes, seconds: ms / MS_PER_SECOND };
}
