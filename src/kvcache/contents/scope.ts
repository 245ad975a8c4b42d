/**
 * Sharing scopes. A scope is part of every block's identity, at the root of its prefix: sequences
 * of different scopes never share a block.
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

/** An adapter's number of 32 bits, or none, in front of the line break; then the salt. */
const KEY = /^(\d{0,10})\n(.*)$/s;
const LORA_ID_MAX = 0xffffffff;

/**
 * Parses the result of `scopeKey`; an empty salt is none. Any other text, e.g. of a damaged file,
 * is a salt as a whole.
 */
export function parseScope(key: string): CacheScope {
  const [, digits = "", salt = key] = KEY.exec(key) ?? [];
  const loraId = Number(digits);
  if (loraId > LORA_ID_MAX) return { loraId: null, cacheSalt: key };
  return { loraId: digits === "" ? null : loraId, cacheSalt: salt || null };
}
