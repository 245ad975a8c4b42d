/** What blocks of vLLM and SGLang depend on beside their tokens: salt, adapter, images. */
import { type EventFields, malformed } from "./engine-fields.ts";

const NAME_LENGTH_MAX = 1024;

/** The keys of a run of blocks. */
export interface BlockKeys {
  /** Of the chain, where the run begins one. */
  readonly salt: string | null;
  readonly lora: string | null;
  /** Per block: whether it depends on more than text, salt and adapter. */
  readonly other: readonly boolean[];
}

export function isText({ other }: BlockKeys, block: number): boolean {
  return other[block] !== true;
}

/**
 * Reads the keys of `blocks` blocks. vLLM has a list per block, or null: the adapter's name, pairs
 * of an image's hash and offset, and in the first block of a chain the salt. SGLang has the salt as
 * a field.
 */
export function blockKeys(fields: EventFields, blocks: number, isRoot: boolean): BlockKeys {
  const name = text(fields.lora_name, "lora_name");
  const id = fields.lora_id;
  const lora = name ?? (typeof id === "number" || typeof id === "bigint" ? numbered(id) : null);
  let salt = text(fields.cache_salt, "cache_salt");
  const { extra_keys: lists } = fields;
  if (lists === null || lists === undefined) return { salt, lora, other: [] };
  if (!Array.isArray(lists) || lists.length !== blocks) {
    throw malformed("extra_keys", `a list of ${blocks}`, lists);
  }
  const other = lists.map((keys: unknown, block) => {
    if (keys === null || keys === undefined) return false;
    if (!Array.isArray(keys)) throw malformed("extra_keys", "lists", keys);
    // Once: a salt may be the adapter's name, too.
    const at = name === null ? -1 : keys.indexOf(name);
    const rest = keys.filter((_, place) => place !== at);
    const [only] = rest;
    if (isRoot && block === 0 && rest.length === 1 && typeof only === "string") {
      salt = text(only, "extra_keys");
      return false;
    }
    return rest.length > 0;
  });
  return { salt, lora, other };
}

/** An adapter of which the number alone is told: no name that a worker lists is like it. */
export function numbered(id: number | bigint): string {
  return `\u0000${id}`;
}

function text(value: unknown, name: string): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string" && value.length <= NAME_LENGTH_MAX) return value;
  throw malformed(name, `a text of at most ${NAME_LENGTH_MAX} characters`, value);
}
