import type { BlockMove } from "./block-move.ts";
import type { DiskJob } from "./disk-job.ts";

/**
 * What the cache decided up to one moment, as plain data. The moves are carried out first, in
 * order: a job may use a host block that a move fills or empties.
 */
export interface CacheMoves {
  readonly moves: readonly BlockMove[];
  readonly jobs: readonly DiskJob[];
}
