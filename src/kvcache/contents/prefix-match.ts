import type { BlockId } from "./block-id.ts";
import type { NodeId } from "./prefix-tree.ts";

/** A match of a prompt with the leading tokens of a stored block. */
export interface PartialMatch {
  /** The stored block, on the device or in host memory. */
  readonly block: BlockId;
  readonly node: NodeId;
  /** Leading tokens of it that the prompt shares: at least one. */
  readonly tokens: number;
  /**
   * Take the block itself, since it is unheld and has no children: its contents are forgotten. Else
   * it is copied to a new block. A plan that claims the same block twice, or takes over one that an
   * earlier item claims, must set this to false; it must cut a later item's match at a block that
   * an earlier item takes over.
   */
  readonly takeover: boolean;
}

/** The stored prefix of a prompt in one group of layers. */
export interface GroupMatch {
  /** Full blocks from the start on, each the best copy: on the device, or in host memory. */
  readonly blocks: readonly BlockId[];
  /** The last full block's node; null without blocks. */
  readonly tip: NodeId | null;
  /** The match inside the next block; null where there is none. */
  readonly partial: PartialMatch | null;
  /** Tokens that need not be computed: in `blocks` and in `partial`. */
  readonly tokens: number;
  /** Full blocks behind `blocks` that are only on disk: `startLoad` reads them into host memory. */
  readonly onDisk: readonly BlockId[];
}

/**
 * The stored prefix of a prompt, in the first group of layers; `further` has the other groups',
 * which are equally long. Valid until the cache changes.
 */
export interface PrefixMatch extends GroupMatch {
  readonly further: readonly GroupMatch[];
}

/** The matches of all groups. */
export function matchParts(match: PrefixMatch): readonly GroupMatch[] {
  return match.further.length === 0 ? [match] : [match, ...match.further];
}

/** Nothing is stored. */
export const NO_MATCH: PrefixMatch = {
  blocks: [],
  tip: null,
  partial: null,
  tokens: 0,
  onDisk: [],
  further: [],
};

/** The match without its partial blocks. */
export function withoutPartial(match: PrefixMatch): PrefixMatch {
  if (match.partial === null) return match;
  return { ...cutPartial(match), further: match.further.map(cutPartial) };
}

function cutPartial<Match extends GroupMatch>(match: Match): Match {
  return { ...match, partial: null, tokens: match.tokens - (match.partial?.tokens ?? 0) };
}
