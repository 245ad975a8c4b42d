import type { BlockId } from "#kvcache/contents";

/**
 * A block on its way to another engine, or from one. Like a `DiskJob` it runs beside the steps, and
 * its host block stays held until it is reported as finished.
 */
export interface PeerJob {
  readonly kind: "send" | "receive";
  /** The transfer that it is a part of: its caller's key. */
  readonly transfer: number;
  /**
   * Its place in the transfer: blocks in the order of their positions, with those of all groups of
   * layers for the same positions behind each other.
   */
  readonly piece: number;
  readonly host: BlockId;
}

/** How a job ended. Not `ok`: a host block that was to be filled has no contents. */
export interface FinishedPeerJob {
  readonly job: PeerJob;
  readonly ok: boolean;
}
