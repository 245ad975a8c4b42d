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

/**
 * The scope as the string that tables and the tree compare; "" without adapter and salt. Different
 * scopes have different keys whatever the salt is: a line break in it never passes for the one
 * that follows an adapter.
 */
export function scopeKey({ loraId, cacheSalt }: CacheScope): string {
  const salt = cacheSalt ?? "";
  if (loraId !== null) return `${loraId}\n${salt}`;
  return salt.includes("\n") ? `\n${salt}` : salt;
}

/** What `scopeKey` put together; an empty salt is none. */
export function parseScope(key: string): CacheScope {
  const end = key.indexOf("\n");
  const loraId = end > 0 ? Number(key.slice(0, end)) : null;
  return { loraId, cacheSalt: key.slice(end + 1) || null };
}
