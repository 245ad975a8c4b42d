import type { PeerJob } from "#kvcache";
import type { ForeignRange, PiecesByWay, SharedRegion } from "#transfer";

/** A part of what this engine's device holds of blocks, as other engines are told of it. */
export interface DevicePlace {
  readonly offset: number;
  readonly bytes: number;
}

/** Pieces of blocks that other engines had stored, and how long they were on their way. */
export interface FetchedPieces {
  readonly pieces: number;
  /** Of fetches at a time, their time together. */
  readonly ms: number;
}

/** Copies from another engine's device; false: it cannot. */
export type Pull = (from: readonly ForeignRange[]) => Promise<boolean>;

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
  /**
   * Memory for blocks from which other engines of this machine take them without a connection;
   * null: there is none.
   */
  share(bytes: number): SharedRegion | null;
  /**
   * Lets networks of other machines reach memory of so many bytes, which `first` begins. To be
   * called back before it is released.
   */
  expose(first: Uint8Array, bytes: number): () => void;
  /** Pieces that others have taken, by the way that they went. */
  sent(): PiecesByWay;
  /** What came from others since the start. */
  fetched(): FetchedPieces;
  /** Tells what reaches the device's blocks: once, before the first of them is sent. */
  place(description: string, bytes: number): void;
  /** As `send`, of a block on the device. */
  sendPlaced(job: PeerJob, places: readonly DevicePlace[]): Promise<boolean>;
  /** As `receive`, of a block of so many bytes on the device: `pull` copies it. */
  receivePlaced(job: PeerJob, bytes: number, pull: Pull): Promise<boolean>;
  /** Tells which descriptions of other engines' devices are not used any more. */
  onForgotten(forgotten: (description: string) => void): void;
}
