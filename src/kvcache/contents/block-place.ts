/** A tree node's number, below `nodesMax`; valid while one of its blocks is stored, then reused. */
export type NodeId = number & { readonly kind: "NodeId" };

/** Brands an integer from a list or index as a node id. */
export function nodeId(value: number): NodeId {
  // Typed arrays cannot carry the brand.
  return value as NodeId;
}

/** A block's place in the tree: below `parent`, or at the root of `scope` where that is null. */
export interface BlockPlace {
  /** Read at the root only; below it, the parent's scope counts. */
  readonly scope: string;
  /** A node with a full block. */
  readonly parent: NodeId | null;
  /** [>= start + count] The block holds `count` tokens from `start` on. */
  readonly tokens: Int32Array;
  readonly start: number;
  /** Tokens of the block: 1 up to `blockTokens`, which is the default. */
  readonly count?: number;
  /**
   * Extra key that distinguishes equal tokens, e.g. by the images they stand for. Default: "",
   * none.
   */
  readonly extra?: string;
}
