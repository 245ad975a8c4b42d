import type { BlockId, NodeId } from "#kvcache/contents";
import type { ObservedContents, StoreObserver } from "#kvcache/events";

/** Receives changes that concern the disk; called only where there is one. */
export interface DiskListener {
  /** A host block just got contents, and is held during this call. */
  offloaded(host: BlockId, node: NodeId): void;
  /** A disk block is taken for other contents, or forgotten; it still has its old contents. */
  forgotten(disk: BlockId, node: NodeId): void;
}

/** The parts that are told of changes. */
export interface BooksListeners {
  /** Makes the observer of these contents. */
  readonly observer: (contents: ObservedContents) => StoreObserver;
  readonly disk: DiskListener;
}
