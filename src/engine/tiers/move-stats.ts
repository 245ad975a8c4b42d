import type { DiskStoreStats } from "./disk-store.ts";

/** Moves in one direction since the start. */
export interface MoveStats {
  readonly blocks: number;
  readonly bytes: number;
  /** Time of this thread; an asynchronous device may take longer. */
  readonly ms: number;
}

/** A mover's statistics, by direction; `disk` is null without that level. */
export interface LevelMoverStats {
  readonly copy: MoveStats;
  readonly offload: MoveStats;
  readonly onboard: MoveStats;
  readonly disk: DiskStoreStats | null;
}

export function noMoves(): { blocks: number; bytes: number; ms: number } {
  return { blocks: 0, bytes: 0, ms: 0 };
}
