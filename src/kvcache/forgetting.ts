/** Forgets what is cached, on request rather than for other contents. */
import { blockId } from "#kvcache/contents";
import type { CacheBooks, LevelBooks } from "#kvcache/levels";

const LEVELS = [0, 1, 2] as const;

/** See `KvCache.reset`. */
export function reset(books: CacheBooks): boolean {
  const isHeld = levelsOf(books).some((level) => level.poolStats().held > 0);
  if (!isHeld) books.clear();
  return !isHeld;
}

/** See `KvCache.forgetCached`. */
export function forgetCached(books: CacheBooks): void {
  for (const level of levelsOf(books)) {
    for (let index = level.first; index < level.first + level.blocks; index++) {
      const block = blockId(index);
      if (level.isPublished(block) && level.holders(block) === 0) books.forget(block);
    }
  }
}

function levelsOf(books: CacheBooks): LevelBooks[] {
  return LEVELS.flatMap((level) => books.booksAt(level) ?? []);
}
