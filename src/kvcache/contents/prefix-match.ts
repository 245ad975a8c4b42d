import type { BlockId } from "./block-id.ts";
import type { NodeId } from "./prefix-tree.ts";

/** The start of a stored block that a prompt goes on with, and then differs. */
export interface PartialMatch {
  /** The stored block, on the device or in host memory. */
  readonly block: BlockId;
  readonly node: NodeId;
  /** Leading tokens of it that the prompt shares: at least one. */
  readonly tokens: number;
  /**
   * Take the block itself, since nobody holds it and nothing continues it: what is stored in it is
   * forgotten. Else it is copied to a new block. A plan that claims the same block twice, or takes
   * over one that an earlier item claims, must set this to false; it must cut a later item's match
   * at a block that an earlier item takes over.
   */
  readonly takeover: boolean;
}

/** What of a prompt is stored. Valid until the cache changes. */
export interface PrefixMatch {
  /** Full blocks from the start on, each the best copy: on the device, or in host memory. */
  readonly blocks: readonly BlockId[];
  /** The last full block's place; null without blocks. */
  readonly tip: NodeId | null;
  /** How the prompt goes on inside the next block; null where it does not. */
  readonly partial: PartialMatch | null;
  /** Tokens that need not be computed: in `blocks` and in `partial`. */
  readonly tokens: number;
  /** Full blocks behind `blocks` that are on disk alone: `startLoad` brings them to host memory. */
  readonly onDisk: readonly BlockId[];
}

/** Nothing is stored. */
export const NO_MATCH: PrefixMatch = {
  blocks: [],
  tip: null,
  partial: null,
  tokens: 0,
  onDisk: [],
};

/** The same prefix in full blocks alone. */
export function withoutPartial(match: PrefixMatch): PrefixMatch {
  if (match.partial === null) return match;
  return { ...match, partial: null, tokens: match.tokens - match.partial.tokens };
}
