/** Fields of vLLM's and SGLang's events, by name, checked one by one. */
import { EngineError } from "#base";
import type { KvLevel } from "#cluster/protocol";

/** An event's fields; anything may be in them. */
export type EventFields = Readonly<Record<string, unknown>> & { readonly type: string };

/** Fields of events that come as lists, behind their type (V 2.2). */
const LIST_FIELDS: Readonly<Record<string, readonly string[]>> = {
  BlockStored: [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
    "locality",
  ],
  BlockRemoved: ["block_hashes", "medium", "group_idx", "locality"],
  AllBlocksCleared: [],
};

/** Most hashes and tokens of one event. */
const HASHES_MAX = 2 ** 16;
const TOKENS_MAX = 2 ** 21;
const TOKEN_MAX = 2 ** 32 - 1;

/** Where blocks are, by the names of all versions. */
const LEVELS: ReadonlyMap<string, KvLevel> = new Map([
  ["GPU", 0],
  ["CPU", 1],
  ["CPU_PINNED", 1],
  ["CPU_TIER1", 1],
  ["CPU_TIER2", 2],
  ["STORAGE", 2],
  ["DISK", 2],
  ["EXTERNAL", 2],
]);

/** The fields by name, of a list or a map. */
export function eventFields(event: unknown): EventFields {
  if (Array.isArray(event)) return listFields(event);
  if (typeof event !== "object" || event === null) throw malformed("event", "a list or map", event);
  const { type } = event as { readonly type?: unknown }; // An object.
  if (typeof type !== "string") throw malformed("type", "a text", type);
  return event as EventFields;
}

function listFields([type, ...values]: readonly unknown[]): EventFields {
  if (typeof type !== "string") throw malformed("type", "a text", type);
  const names = LIST_FIELDS[type];
  if (names === undefined) return { type };
  // SGLang adds a map of what is rare, in the place of vLLM's adapter.
  const extra = type === "BlockStored" ? values[6] : undefined;
  const isMap = typeof extra === "object" && extra !== null && !Array.isArray(extra);
  const fields: Record<string, unknown> = isMap ? { ...extra } : {};
  names.forEach((name, place) => {
    if (!(isMap && place >= 6)) fields[name] = values[place];
  });
  return { ...fields, type };
}

/** 64-bit hashes: numbers of either sign, or bytes, of which the last eight count, as in vLLM. */
export function hashList(value: unknown): bigint[] {
  if (!Array.isArray(value) || value.length > HASHES_MAX) {
    throw malformed("block_hashes", `a list of at most ${HASHES_MAX}`, value);
  }
  return value.map(hash);
}

function hash(value: unknown): bigint {
  if (typeof value === "bigint") return value;
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  if (value instanceof Uint8Array && value.length >= 8 && value.length <= 64) {
    const view = new DataView(value.buffer, value.byteOffset, value.length);
    return view.getBigUint64(value.length - 8);
  }
  throw malformed("block_hashes", "64-bit numbers or 8 to 64 bytes", value);
}

/** Tokens; of pairs, which a speculating SGLang hashes, the first of each. */
export function tokenIds(value: unknown): Uint32Array {
  if (!Array.isArray(value) || value.length > TOKENS_MAX) {
    throw malformed("token_ids", `a list of at most ${TOKENS_MAX}`, value);
  }
  const tokens = new Uint32Array(value.length);
  value.forEach((each: unknown, place) => {
    tokens[place] = number(Array.isArray(each) ? each[0] : each, "token_ids", TOKEN_MAX);
  });
  return tokens;
}

/** The level of a medium; what lies with others is as far as a disk. */
export function levelOf(medium: unknown, locality: unknown): KvLevel {
  if (locality === "REMOTE") return 2;
  if (medium === null || medium === undefined) return 0;
  const level = typeof medium === "string" ? LEVELS.get(medium) : undefined;
  if (level === undefined) throw malformed("medium", [...LEVELS.keys()].join(", "), medium);
  return level;
}

/** A whole number from 0 to `most`. */
export function number(value: unknown, name: string, most: number): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most) {
    return value;
  }
  throw malformed(name, `a whole number up to ${most}`, value);
}

export function malformed(name: string, wanted: string, value: unknown): EngineError {
  const shown = typeof value === "object" && value !== null ? "an object" : String(value);
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot read KV events: ${name} must be ${wanted}, current value is ${shown.slice(0, 80)}`,
    { param: name },
  );
}
