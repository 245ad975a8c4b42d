/**
 * Identity of a block's contents beside its tokens and prefix. The tree compares it as one string;
 * blocks that have one never match in part.
 */

/** A multimodal item that a block overlaps. */
export interface MultimodalKey {
  /** Digest of the item, 64 hex digits. */
  readonly hash: string;
  /** 0 where the item begins in the block, else how far into the item the block begins. */
  readonly startOffset: number;
}

/** An image or the like whose tokens are placeholders. */
export interface MultimodalItem {
  /** Digest of its contents, 64 hex digits. */
  readonly hash: string;
  /** Position of its first token, and how many tokens it has. */
  readonly start: number;
  readonly length: number;
}

/** Further identity of a prompt's tokens. */
export interface ContentKeys {
  /** One per token; two tokens are equal only where these are. Absent: all 0. */
  readonly extraIds?: readonly number[];
  readonly items?: readonly MultimodalItem[];
}

/** A block's part of `ContentKeys`. */
export interface BlockExtra {
  /** One per token; null: all 0. */
  readonly extraIds: readonly number[] | null;
  readonly multimodalKeys: readonly MultimodalKey[];
}

const NO_EXTRA: BlockExtra = { extraIds: null, multimodalKeys: [] };

/** The part of positions `start` up to `end` as one string; "" where there is none. */
export function extraOf(keys: ContentKeys | null, start: number, end: number): string {
  if (keys === null) return "";
  const ids = keys.extraIds?.slice(start, end) ?? [];
  const extraIds = ids.some((id) => id !== 0) ? ids : null;
  const multimodalKeys = (keys.items ?? [])
    .filter((item) => item.start < end && item.start + item.length > start)
    .map(({ hash, start: first }) => ({ hash, startOffset: Math.max(0, start - first) }));
  if (extraIds === null && multimodalKeys.length === 0) return "";
  return JSON.stringify({ extraIds, multimodalKeys } satisfies BlockExtra);
}

/** Parses the result of `extraOf`. */
export function parseExtra(extra: string): BlockExtra {
  // Only strings that `extraOf` made get into the tree.
  return extra === "" ? NO_EXTRA : (JSON.parse(extra) as BlockExtra);
}
