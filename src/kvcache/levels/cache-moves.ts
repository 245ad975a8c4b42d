import type { BlockMove } from "./block-move.ts";
import type { DiskJob } from "./disk-job.ts";
import type { PeerJob } from "./peer-job.ts";

/**
 * What the cache decided up to one moment, as plain data. The moves are carried out first, in
 * order: a job may use a host block that a move fills or empties.
 */
export interface CacheMoves {
  readonly moves: readonly BlockMove[];
  readonly jobs: readonly DiskJob[];
  /** Transfers to other engines and from them, started as `jobs` are. */
  readonly peerJobs: readonly PeerJob[];
}
