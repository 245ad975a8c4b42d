/** A look into the cache for people: what is where, bounded however large the cache is. */
import type { CacheLevel, NodeId } from "#kvcache/contents";
import type { CacheBooks } from "#kvcache/levels";
import { type LevelMap, levelMap } from "./block-map.ts";
import {
  type NodeName,
  nodeNamed,
  type PrefixAsk,
  type PrefixPicture,
  prefixPicture,
} from "./prefix-picture.ts";

const LEVELS: readonly CacheLevel[] = [0, 1, 2];

/** What is wanted; absent parts cost nothing. */
export interface CacheAsk {
  /** A map of each level, of at most so many cells. */
  readonly cellsMax?: number;
  readonly prefixes?: PrefixAsk;
  /** The tokens of a prefix, the last `tokensMax` of them up to the end of a run. */
  readonly tokens?: NodeName & { readonly tokensMax: number };
}

/** The end of a prefix. */
export interface PrefixTokens {
  readonly tokenIds: readonly number[];
  /** Tokens of the prefix before these. */
  readonly skipped: number;
}

/** What was seen. Parts that were not asked for are null, and so is what is gone. */
export interface CacheLook {
  readonly levels: readonly LevelMap[] | null;
  readonly prefixes: PrefixPicture | null;
  readonly tokens: PrefixTokens | null;
}

/** See `KvCache.look`. */
export function lookInto(books: CacheBooks, ask: CacheAsk): CacheLook {
  const { cellsMax, prefixes, tokens } = ask;
  return {
    levels: cellsMax === undefined ? null : levelMaps(books, cellsMax),
    prefixes: prefixes === undefined ? null : prefixPicture(books, prefixes),
    tokens: tokens === undefined ? null : prefixTokens(books, tokens),
  };
}

function levelMaps(books: CacheBooks, cellsMax: number): LevelMap[] {
  return LEVELS.flatMap((level) => {
    const own = books.booksAt(level);
    return own === null || own.blocks === 0 ? [] : [levelMap(own, cellsMax)];
  });
}

/** The prefix that ends with the run that begins at a node. */
function prefixTokens(
  { index }: CacheBooks,
  { tokensMax, ...name }: NodeName & { readonly tokensMax: number },
): PrefixTokens | null {
  const { tree } = index;
  let node = nodeNamed(index, name);
  if (node === null) return null;
  for (let next: NodeId | null = node; next !== null; next = tree.onlyChildOf(next)) node = next;
  const pieces: Int32Array[] = [];
  let taken = 0;
  let skipped = 0;
  for (let next: NodeId | null = node; next !== null; next = tree.parentOf(next)) {
    const tokens = tree.tokensOf(next);
    taken += tokens.length;
    if (taken <= tokensMax) pieces.push(tokens);
    else skipped += tokens.length;
  }
  return { tokenIds: pieces.reverse().flatMap((piece) => [...piece]), skipped };
}
