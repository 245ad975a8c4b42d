/** The cache as the page reads it: maps of the levels, and what happened to them. */
import type { CacheReport, TimedLook } from "#engine";

/** Names of the levels in a look, by their number. */
const LEVELS = ["device", "host", "disk"] as const;

/** The message `cache`: maps as base64 of [held, cached, priority] for each cell. */
export function cacheMessage({ levels }: TimedLook, report: CacheReport | null): unknown {
  return {
    levels: (levels ?? []).map(({ level, cells, blocks, blocksPerCell, readPerCell }) => ({
      level: LEVELS[level],
      ...{ blocks, blocksPerCell, readPerCell },
      cells: Buffer.from(cells.buffer, cells.byteOffset, cells.byteLength).toString("base64"),
    })),
    report: report === null ? null : reportOf(report),
  };
}

/** Counters since the start; the page shows what they grew by. */
function reportOf({ levels, moves, copiedBlocks, swappedOutBlocks, swappedInBlocks }: CacheReport) {
  return {
    levels: levels.map((level) => ({
      level: level.level,
      free: level.free,
      held: level.held,
      cached: level.cached,
      total: level.total,
      hitTokens: level.hitTokens,
      offloaded: level.offloaded - level.copiedAhead,
      onboarded: level.onboarded,
      forgotten: level.forgotten,
      dropped: level.dropped,
      orphaned: level.orphaned,
      expired: level.expired,
    })),
    moves,
    ...{ copiedBlocks, swappedOutBlocks, swappedInBlocks },
  };
}
