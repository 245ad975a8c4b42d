/**
 * Whose contents may be shared. A scope is part of every block's identity, at the root of its
 * history: sequences of different scopes never share a block.
 */

/** What tells scopes apart. No adapter and adapter 0 differ. */
export interface CacheScope {
  /** Adapter whose weights computed the keys and values; null: the model's own. */
  readonly loraId: number | null;
  /** Callers with another salt never hit each other's blocks; null: none. */
  readonly cacheSalt: string | null;
}

/** The scope as the string that tables and the tree compare; "" without adapter and salt. */
export function scopeKey({ loraId, cacheSalt }: CacheScope): string {
  const salt = cacheSalt ?? "";
  return loraId === null ? salt : `${loraId}\n${salt}`;
}

/** What `scopeKey` put together. A salt has no line break of its own: see `scopeKey`'s callers. */
export function parseScope(key: string): CacheScope {
  const end = key.indexOf("\n");
  const salt = key.slice(end + 1);
  return { loraId: end < 0 ? null : Number(key.slice(0, end)), cacheSalt: salt || null };
}
