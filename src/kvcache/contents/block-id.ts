/**
 * One block of the cache. The levels share one range of ids: those of the device come first, then
 * those of host memory, then those of the disk. Tables, the index, moves and jobs use these ids.
 */
export type BlockId = number & { readonly kind: "BlockId" };

/**
 * The same block inside its level: 0 up to the level's size. A pool, an eviction order and a book
 * of retention know one level, and use these ids; only `LevelBooks` converts between both.
 */
export type LevelBlockId = number & { readonly kind: "LevelBlockId" };

/** Brands an integer from a table, list or index as a block of the cache. */
export function blockId(value: number): BlockId {
  // The one place where integers become ids: typed arrays cannot carry the brand.
  return value as BlockId;
}

/** Brands an integer from a list or queue of one level as a block of that level. */
export function levelBlockId(value: number): LevelBlockId {
  return value as LevelBlockId;
}
