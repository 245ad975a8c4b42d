/** A place in the tree, below `nodesMax`; valid while one of its blocks is stored, reused later. */
export type NodeId = number & { readonly kind: "NodeId" };

/** Names a node that a list or index of ours stores as a plain integer. */
export function nodeId(value: number): NodeId {
  // Typed arrays cannot carry the brand.
  return value as NodeId;
}

/** Where a block goes: below `parent`, or at the top of `scope` where that is null. */
export interface BlockPlace {
  /** Read at the top only: below, the parent's counts. */
  readonly scope: string;
  /** A node with a full block. */
  readonly parent: NodeId | null;
  /** [>= start + count] of which the block holds `count` from `start` on. */
  readonly tokens: Int32Array;
  readonly start: number;
  /** Tokens of the block: 1 up to `blockTokens`, which is the default. */
  readonly count?: number;
  /** What tells equal tokens apart, e.g. the images that they stand for. Default: "", nothing. */
  readonly extra?: string;
}
