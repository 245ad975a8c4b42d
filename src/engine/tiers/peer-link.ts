import type { PeerJob } from "#kvcache";

/** Carries the bytes of blocks to other engines and from them. */
export interface PeerLink {
  /**
   * Settles when the parts, which do not change until then, were sent; false: they are not wanted
   * any more.
   */
  send(job: PeerJob, parts: readonly Uint8Array[]): Promise<boolean>;
  /**
   * Fills the parts, and settles when nothing writes to them any more; false: they have no
   * contents.
   */
  receive(job: PeerJob, parts: readonly Uint8Array[]): Promise<boolean>;
}
