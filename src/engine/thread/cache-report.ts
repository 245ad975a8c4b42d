/** Combines the counts of the cache and its movers in one report for metrics and health. */

import type { CacheLevelReport, CacheReport, MoveReport } from "#engine/protocol";
import type { CacheMemory, MoveCounts, TrafficCounts } from "#engine/tiers";
import type { LevelStats } from "#kvcache";

const MS_PER_SECOND = 1000;
const LEVEL_NAMES = ["device", "host", "disk"] as const;
const NO_TRAFFIC: TrafficCounts = { count: 0, bytes: 0, ms: 0, failures: 0 };

/** Reads some thirty numbers, without a scan: made when a report is due, not in every step. */
export function cacheReport(memory: Pick<CacheMemory, "cache" | "counts">): CacheReport {
  const { levels, ...rest } = memory.cache.stats();
  const { copy, offload, onboard, disk } = memory.counts();
  return {
    ...rest,
    levels: levels.map(levelReport),
    moves: {
      copy: moveReport(copy),
      offload: moveReport(offload),
      onboard: moveReport(onboard),
      diskWrite: trafficReport(disk?.writes ?? NO_TRAFFIC),
      diskRead: trafficReport(disk?.reads ?? NO_TRAFFIC),
    },
  };
}

function levelReport(stats: LevelStats): CacheLevelReport {
  return { ...stats, level: LEVEL_NAMES[stats.level] };
}

function moveReport({ blocks, bytes, ms }: MoveCounts): MoveReport {
  return { blocks, bytes, seconds: ms / MS_PER_SECOND };
}

function trafficReport({ count, bytes, ms }: TrafficCounts): MoveReport {
  return { blocks: count, bytes, seconds: ms / MS_PER_SECOND };
}
