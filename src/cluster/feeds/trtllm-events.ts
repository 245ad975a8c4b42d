/**
 * Events of TensorRT-LLM's servers, read one by one (T 2.1): those of the cache manager in C++ (V1,
 * `v1_block_key`, up to 1.3) and of cache manager V2 (`v2_sha256`: hashes of 64 hexadecimal digits;
 * `v2_sha256_64` and `v1_block_key`: numbers; groups of layers), which differ in names alone.
 */
import { parse } from "lossless-json";
import { EngineError, messageOf } from "#base";
import type { KvLevel } from "#cluster/protocol";
import { malformed, number } from "./engine-fields.ts";
import { numbered } from "./extra-keys.ts";

/** Most events of one answer: its buffer has some thousands. */
const EVENTS_MAX = 2 ** 20;
const BLOCKS_MAX = 2 ** 16;
const TOKEN_MAX = 2 ** 32 - 1;
const ID_MAX = Number.MAX_SAFE_INTEGER;
const RANK_MAX = 2 ** 16;

/** One block of a `stored` event. */
export interface TrtllmBlock {
  readonly hash: bigint;
  /** Null: images or the like, and not text alone. */
  readonly tokens: readonly number[] | null;
  readonly level: KvLevel;
  readonly salt: string | null;
  readonly lora: string | null;
}

export type TrtllmData =
  | { readonly type: "created" }
  | {
      readonly type: "stored";
      readonly parent: bigint | null;
      readonly blocks: readonly TrtllmBlock[];
    }
  | { readonly type: "removed"; readonly hashes: readonly bigint[] }
  | {
      readonly type: "updated";
      readonly hash: bigint;
      /** Null: it stayed where it was. */
      readonly move: { readonly from: KvLevel; readonly to: KvLevel } | null;
    }
  | { readonly type: "unknown" };

/** An event's place, which can be read even where the rest cannot. */
export interface TrtllmPlace {
  readonly id: number;
  /** Of data-parallel attention; each has numbers of its own. */
  readonly rank: number;
  /** Most positions that the layers see; 0 in versions that do not say. */
  readonly window: number;
  /** Of V2; 0 in others. */
  readonly layerGroup: number;
}

type Fields = Readonly<Record<string, unknown>>;

/** The events of one answer. Throws INVALID_ARGUMENT for text that is no list. */
export function trtllmList(text: string): readonly unknown[] {
  let list: unknown;
  try {
    list = parse(text, undefined, exactNumber);
  } catch (cause) {
    const message = `Cannot read KV events: they must be JSON, ${messageOf(cause)}`;
    throw new EngineError("INVALID_ARGUMENT", message, { cause });
  }
  if (Array.isArray(list) && list.length <= EVENTS_MAX) return list;
  throw malformed("events", `a list of at most ${EVENTS_MAX}`, list);
}

export function trtllmPlace(event: unknown): TrtllmPlace {
  const fields = object(event, "event");
  return {
    id: number(fields.event_id, "event_id", ID_MAX),
    rank: number(fields.attention_dp_rank ?? 0, "attention_dp_rank", RANK_MAX),
    window: number(fields.window_size ?? 0, "window_size", ID_MAX),
    layerGroup: number(fields.layer_group_id ?? 0, "layer_group_id", RANK_MAX),
  };
}

/** What an event says; throws INVALID_ARGUMENT naming what is wrong. */
export function trtllmData(event: unknown): TrtllmData {
  const data = object(object(event, "event").data, "data");
  switch (data.type) {
    case "created":
      return { type: "created" };
    case "stored": {
      const parent = data.parent_hash ?? null;
      const blocks = list(data.blocks, "blocks").map(block);
      return { type: "stored", parent: parent === null ? null : hash(parent), blocks };
    }
    case "removed":
      return { type: "removed", hashes: list(data.block_hashes, "block_hashes").map(hash) };
    case "updated": {
      const diff = data.cache_level ?? null;
      return {
        type: "updated",
        hash: hash(data.block_hash),
        move: diff === null ? null : move(diff),
      };
    }
    default:
      return { type: "unknown" };
  }
}

function block(value: unknown): TrtllmBlock {
  const fields = object(value, "blocks");
  const { lora_name: loraName = null, lora_id: loraId = null, cache_salt: salt = null } = fields;
  const isNumber = typeof loraId === "number" || typeof loraId === "bigint";
  const lora = loraName ?? (isNumber ? numbered(loraId) : loraId);
  return {
    hash: hash(fields.block_hash),
    tokens: list(fields.mm_keys ?? [], "mm_keys").length > 0 ? null : textTokens(fields.tokens),
    level: level(fields.cache_level ?? 0),
    salt: salt === null ? null : String(salt).slice(0, 1024),
    lora: lora === null ? null : String(lora).slice(0, 1024),
  };
}

/** Ids; null where one is a digest, or has an extra id: it stands for an image. */
function textTokens(value: unknown): readonly number[] | null {
  const ids: number[] = [];
  for (const token of list(value, "tokens")) {
    const { token_id: id, token_extra_id: extra = 0 } = object(token, "tokens");
    if (extra !== 0 || typeof id === "string") return null;
    ids.push(number(id, "token_id", TOKEN_MAX));
  }
  return ids;
}

function move(value: unknown): { readonly from: KvLevel; readonly to: KvLevel } {
  const fields = object(value, "cache_level");
  return { from: level(fields.old_value), to: level(fields.new_value) };
}

/** Levels behind the disk do not exist yet. */
function level(value: unknown): KvLevel {
  if (value === 0 || value === 1 || value === 2) return value;
  throw malformed("cache_level", "0, 1 or 2", value);
}

/** A number of 64 bits, or the first 16 of more hexadecimal digits. */
function hash(value: unknown): bigint {
  if (typeof value === "bigint") return value;
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  if (typeof value === "string" && /^[0-9a-f]{1,128}$/i.test(value)) {
    return BigInt(`0x${value.slice(0, 16)}`);
  }
  throw malformed("block_hash", "a whole number or hexadecimal digits", value);
}

function list(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value) && value.length <= BLOCKS_MAX) return value;
  throw malformed(name, `a list of at most ${BLOCKS_MAX}`, value);
}

function object(value: unknown, name: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Fields; // An object, and JSON's keys are strings.
  }
  throw malformed(name, "an object", value);
}

/** Whole numbers that a double cannot hold become BigInts, of at most 20 digits. */
function exactNumber(digits: string): unknown {
  const value = Number(digits);
  if (!/^-?\d{1,20}$/.test(digits) || Number.isSafeInteger(value)) return value;
  return BigInt(digits);
}
