import type { BlockId } from "#kvcache/contents";

/** Where blocks of a transfer leave and arrive. */
export type TransferLevel = "device" | "host";

/**
 * A block on its way to another engine, or from one. Like a `DiskJob` it runs beside the steps, and
 * its block stays held until it is reported as finished.
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
  /** In host memory or on the device: its level says which. */
  readonly block: BlockId;
}

/** How a job ended. Not `ok`: a block that was to be filled has no contents. */
export interface FinishedPeerJob {
  readonly job: PeerJob;
  readonly ok: boolean;
}
