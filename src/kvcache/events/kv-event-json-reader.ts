/**
 * The parser for kv-event-json.ts: reads JSON of TensorRT-LLM and of this engine as events and
 * snapshots. The input comes from other machines, so everything is checked; unknown fields and
 * types are passed over.
 */
import { parse } from "lossless-json";
import { EngineError, messageOf } from "#base";
import type { CacheLevel, KvEventDiff, MultimodalKey } from "#kvcache/contents";
import type {
  KvEvent,
  KvSnapshot,
  NumberedKvEvent,
  SnapshotBlock,
  StoredBlock,
} from "./kv-event.ts";

type Fields = Readonly<Record<string, unknown>>;

/**
 * A JSON array of events, 64-bit numbers exact. Events of unknown types are left out; their numbers
 * are missing then.
 *
 * @throws EngineError INVALID_ARGUMENT naming what is wrong
 */
export function parseKvEvents(text: string): NumberedKvEvent[] {
  return list(parseJson(text), "events").flatMap((value) => {
    const event = readEvent(value);
    return event === null ? [] : [event];
  });
}

/** One event; null for an unknown type. Throws as `parseKvEvents` does. */
export function parseKvEvent(text: string): NumberedKvEvent | null {
  return readEvent(parseJson(text));
}

/** A part of a snapshot, and whether it is the first and the last one. */
export interface KvSnapshotPart extends KvSnapshot {
  readonly first: boolean;
  readonly last: boolean;
}

/** Parses the output of `kvSnapshotJson`. Throws as `parseKvEvents` does. */
export function parseKvSnapshot(text: string): KvSnapshotPart {
  const fields = object(parseJson(text), "snapshot");
  return {
    first: fields.first === true,
    last: fields.last === true,
    nextId: integer(fields.next_event_id, "next_event_id"),
    blocksPerLevel: integers(fields.num_blocks_per_cache_level, "num_blocks_per_cache_level"),
    blocks: list(fields.blocks, "blocks").map(readSnapshotBlock),
  };
}

function readEvent(value: unknown): NumberedKvEvent | null {
  const fields = object(value, "event");
  const id = integer(fields.event_id, "event_id");
  const event = readData(object(fields.data, "data"));
  return event === null ? null : { id, ...groupOf(fields), event };
}

/** The group of layers; absent for the first one. */
function groupOf({ layer_group_id: value }: Fields): { readonly group?: number } {
  const group = value === undefined ? 0 : integer(value, "layer_group_id");
  return group === 0 ? {} : { group };
}

function readData(data: Fields): KvEvent | null {
  switch (data.type) {
    case "created": {
      const name = "num_blocks_per_cache_level";
      return { type: "created", blocksPerLevel: integers(data[name], name) };
    }
    case "stored":
      return {
        type: "stored",
        parentHash: parentHash(data),
        blocks: list(data.blocks, "blocks").map(readStoredBlock),
      };
    case "removed": {
      const hashes = list(data.block_hashes, "block_hashes");
      return { type: "removed", hashes: hashes.map((value) => hash(value, "block_hashes")) };
    }
    case "updated":
      return {
        type: "updated",
        hash: hash(data.block_hash, "block_hash"),
        level: diff(data.cache_level, "cache_level", level),
        priority: diff(data.priority, "priority", integer),
      };
    default:
      return null;
  }
}

function readStoredBlock(value: unknown): StoredBlock {
  const fields = object(value, "blocks");
  if (fields.token_ids !== undefined) return readPlainBlock(fields);
  const tokens = list(fields.tokens, "tokens").map((token) => object(token, "tokens"));
  const tokenIds = tokens.map((token) => integer(token.token_id, "token_id"));
  const extraIds = tokens.map((token) => integer(token.token_extra_id ?? 0, "token_extra_id"));
  return readBlock(fields, tokenIds, extraIds.some((id) => id !== 0) ? extraIds : undefined);
}

function readPlainBlock(fields: Fields): StoredBlock {
  const extras = fields.token_extra_ids;
  const extraIds = extras === undefined ? undefined : integers(extras, "token_extra_ids");
  return readBlock(fields, integers(fields.token_ids, "token_ids"), extraIds);
}

function readSnapshotBlock(value: unknown): SnapshotBlock {
  const fields = object(value, "blocks");
  return { ...readPlainBlock(fields), parentHash: parentHash(fields), ...groupOf(fields) };
}

function readBlock(
  fields: Fields,
  tokenIds: readonly number[],
  extraIds: readonly number[] | undefined,
): StoredBlock {
  const loraId = fields.lora_id ?? null;
  const cacheSalt = fields.cache_salt ?? null;
  return {
    hash: hash(fields.block_hash, "block_hash"),
    tokenIds,
    ...(extraIds === undefined ? {} : { extraIds }),
    level: level(fields.cache_level, "cache_level"),
    priority: integer(fields.priority, "priority"),
    multimodalKeys: list(fields.mm_keys ?? [], "mm_keys").map(readMultimodalKey),
    loraId: loraId === null ? null : integer(loraId, "lora_id"),
    cacheSalt: cacheSalt === null ? null : string(cacheSalt, "cache_salt"),
  };
}

function readMultimodalKey(value: unknown): MultimodalKey {
  const fields = object(value, "mm_keys");
  return {
    hash: string(fields.hash, "mm_keys.hash"),
    startOffset: integer(fields.start_offset, "start_offset"),
  };
}

function parentHash(fields: Fields): bigint | null {
  return fields.parent_hash === null ? null : hash(fields.parent_hash, "parent_hash");
}

function diff<Value extends number>(
  value: unknown,
  name: string,
  read: (value: unknown, name: string) => Value,
): KvEventDiff<Value> | null {
  if (value === null || value === undefined) return null;
  const fields = object(value, name);
  return { newValue: read(fields.new_value, name), oldValue: read(fields.old_value, name) };
}

function level(value: unknown, name: string): CacheLevel {
  if (value === 0 || value === 1 || value === 2) return value;
  throw malformed(name, "0, 1 or 2", value);
}

/** An unsigned 64-bit number, parsed as a number or a BigInt. */
function hash(value: unknown, name: string): bigint {
  const given = exact(value);
  const whole = typeof given === "number" && Number.isSafeInteger(given) ? BigInt(given) : given;
  if (typeof whole === "bigint" && whole >= 0n && whole < HASH_LIMIT) return whole;
  throw malformed(name, "an unsigned 64-bit integer", given);
}

const HASH_LIMIT = 2n ** 64n;

function integer(value: unknown, name: string): number {
  const given = exact(value);
  if (typeof given === "number" && Number.isSafeInteger(given)) return given;
  throw malformed(name, "a whole number", given);
}

function integers(value: unknown, name: string): number[] {
  return list(value, name).map((item) => integer(item, name));
}

function string(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw malformed(name, "a string", value);
}

function list(value: unknown, name: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw malformed(name, "a list", value);
}

function object(given: unknown, name: string): Fields {
  const value = exact(given);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Fields; // An object, and JSON's keys are strings.
  }
  throw malformed(name, "an object", value);
}

/**
 * JSON with whole numbers of 64 bits. `JSON.parse` is several times as fast as a parser that keeps
 * them, but would round them: before it runs, each number of many digits becomes a `WideNumber`.
 * Where such digits stand within a string, the quotes that this puts there end the string before a
 * name, which no JSON has: then the slow parser reads the text as it was.
 */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.replaceAll(WIDE_NUMBER, '$1{"wide":"$2"}'));
  } catch {
    return parseExactly(text);
  }
}

/** Digits behind what may stand before a value; no fraction and no exponent. */
const WIDE_NUMBER = /([:,[]\s*)(-?[1-9]\d{15,})(?![\d.eE])/g;

interface WideNumber {
  readonly wide: string;
}

function isWide(value: unknown): value is WideNumber {
  return typeof value === "object" && value !== null && "wide" in value;
}

/** A number or a BigInt where the value was a number, else the value. */
function exact(value: unknown): unknown {
  if (!isWide(value)) return value;
  const { wide } = value;
  if (typeof wide !== "string" || !WHOLE.test(wide)) return value;
  return wholeNumber(wide);
}

const WHOLE = /^-?\d+$/;

/** Whole numbers that a double cannot hold are BigInts. */
function wholeNumber(digits: string): number | bigint {
  const value = Number(digits);
  return Number.isSafeInteger(value) ? value : BigInt(digits);
}

function parseExactly(text: string): unknown {
  try {
    return parse(text, undefined, (digits) =>
      WHOLE.test(digits) ? wholeNumber(digits) : Number(digits),
    );
  } catch (cause) {
    const message = `Cannot read KV events: they must be JSON, ${messageOf(cause)}`;
    throw new EngineError("INVALID_ARGUMENT", message, { cause });
  }
}

function malformed(name: string, wanted: string, given: unknown): EngineError {
  const value = exact(given);
  const shown = typeof value === "object" && value !== null ? "an object or list" : String(value);
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot read KV events: ${name} must be ${wanted}, current value is ${shown}`,
    { param: name },
  );
}
