/**
 * Sharing scopes. A scope is part of every block's identity, at the root of its prefix: sequences
 * of different scopes never share a block. Groups of layers have scopes of their own, too: equal
 * tokens have a block in each group.
 */

/** Identity of a scope. No adapter and adapter 0 differ. */
export interface CacheScope {
  /** Adapter whose weights computed the keys and values; null: the model's own. */
  readonly loraId: number | null;
  /** Callers with another salt never hit each other's blocks; null: none. */
  readonly cacheSalt: string | null;
}

/**
 * The scope as the string that tables and the tree compare; "" without adapter and salt. Different
 * scopes have different keys whatever the salt is: a line break in it is never taken for the one
 * that follows an adapter.
 */
export function scopeKey({ loraId, cacheSalt }: CacheScope): string {
  const salt = cacheSalt ?? "";
  if (loraId !== null) return `${loraId}\n${salt}`;
  return salt.includes("\n") ? `\n${salt}` : salt;
}

/** In front of the keys of all groups but the first. No other key begins like this. */
const GROUP = /^g(\d{1,3})\n/;

/** The key of a scope for a group of layers: `key`, that of the first group, for group 0. */
export function groupScope(key: string, group: number): string {
  return group === 0 ? key : `g${group}\n${key}`;
}

/** The group of layers that a key of `groupScope` is for. */
export function groupOfScope(key: string): number {
  return key.startsWith("g") ? Number(GROUP.exec(key)?.[1] ?? 0) : 0;
}

/** An adapter's number of 32 bits, or none, in front of the line break; then the salt. */
const KEY = /^(\d{0,10})\n(.*)$/s;
const LORA_ID_MAX = 0xffffffff;

/**
 * Parses the result of `scopeKey`, for whatever group; an empty salt is none. Any other text, e.g.
 * of a damaged file, is a salt as a whole.
 */
export function parseScope(grouped: string): CacheScope {
  const key = grouped.replace(GROUP, "");
  const [, digits = "", salt = key] = KEY.exec(key) ?? [];
  const loraId = Number(digits);
  if (loraId > LORA_ID_MAX) return { loraId: null, cacheSalt: key };
  return { loraId: digits === "" ? null : loraId, cacheSalt: salt || null };
}
