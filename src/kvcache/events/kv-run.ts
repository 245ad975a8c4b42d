/**
 * Runs of stored blocks in a packed form, for readers that follow many caches: of a `stored` event
 * its hashes and tokens, as base64 of little-endian numbers in a little JSON. A list of ids in JSON
 * takes some ten times as long to write and to read.
 */
import { EngineError } from "#base";
import type { CacheLevel } from "#kvcache/contents";
import type { NumberedKvEvent, StoredBlock } from "./kv-event.ts";

/** Blocks that continue each other and are alike, of text alone. */
export interface KvRun {
  /** The group of layers. */
  readonly group: number;
  readonly level: CacheLevel;
  readonly loraId: number | null;
  readonly cacheSalt: string | null;
  /** The hash before the first one, as below; null: at the root. */
  readonly parent: Uint32Array | null;
  /** Hashes: the low half of each, then the high half. */
  readonly hashes: Uint32Array;
  /** The same count for each block. */
  readonly tokens: Uint32Array;
}

/** A run, and the number of its event. */
export interface NumberedKvRun {
  readonly id: number;
  readonly run: KvRun;
}

const BEGINNING = '{"run":';

/** Null for events that are no such run, which are written in full. */
export function kvRunJson({ id, event, group = 0 }: NumberedKvEvent): string | null {
  if (event.type !== "stored" || !isUniform(event.blocks)) return null;
  const { parentHash, blocks } = event;
  const [first] = blocks as readonly [StoredBlock]; // A uniform run has at least one.
  const count = first.tokenIds.length;
  const hashes = BigUint64Array.from(blocks, ({ hash }) => hash);
  const tokens = new Uint32Array(count * blocks.length);
  blocks.forEach(({ tokenIds }, place) => {
    tokens.set(tokenIds, place * count);
  });
  const parent = parentHash === null ? "null" : `"${base64(BigUint64Array.of(parentHash))}"`;
  const { level, loraId, cacheSalt } = first;
  return (
    `${BEGINNING}{"group":${group},"cache_level":${level},"lora_id":${loraId},` +
    `"cache_salt":${JSON.stringify(cacheSalt)},"parent":${parent},` +
    `"hashes":"${base64(hashes)}","token_ids":"${base64(tokens)}"},"event_id":${id}}`
  );
}

/**
 * Null: the text is an event in full.
 *
 * @throws EngineError INVALID_ARGUMENT naming what is wrong
 */
export function parseKvRun(text: string): NumberedKvRun | null {
  if (!text.startsWith(BEGINNING)) return null;
  const { run, event_id: id } = object(parsed(text), "event");
  const fields = object(run, "run");
  const { group, cache_level: level, lora_id: loraId, cache_salt: cacheSalt } = fields;
  const parent = fields.parent === null ? null : numbers(fields.parent, "parent");
  const hashes = numbers(fields.hashes, "hashes");
  const tokens = numbers(fields.token_ids, "token_ids");
  if (!isWhole(id)) throw malformed("event_id", "a whole number", id);
  if (!isWhole(group)) throw malformed("group", "a whole number", group);
  if (level !== 0 && level !== 1 && level !== 2) throw malformed("cache_level", "0, 1 or 2", level);
  if (loraId !== null && !isWhole(loraId)) throw malformed("lora_id", "a whole number", loraId);
  if (cacheSalt !== null && typeof cacheSalt !== "string") {
    throw malformed("cache_salt", "a string", cacheSalt);
  }
  const isPaired = hashes.length > 0 && hashes.length % 2 === 0;
  if (!isPaired || (parent !== null && parent.length !== 2)) {
    throw malformed("hashes", "64-bit numbers", hashes.length);
  }
  if ((tokens.length * 2) % hashes.length !== 0) {
    throw malformed("token_ids", "as many for each hash", tokens.length);
  }
  return { id, run: { group, level, loraId, cacheSalt, parent, hashes, tokens } };
}

/** Readers see text alone, and one count of tokens, level, adapter and salt. */
function isUniform(blocks: readonly StoredBlock[]): boolean {
  const [first] = blocks;
  return (
    blocks.every(
      (block) =>
        block.extraIds === undefined &&
        block.multimodalKeys.length === 0 &&
        block.tokenIds.length === first?.tokenIds.length &&
        block.level === first.level &&
        block.loraId === first.loraId &&
        block.cacheSalt === first.cacheSalt,
    ) && first !== undefined
  );
}

/** Little-endian, as on all machines that run this. */
function base64({ buffer }: BigUint64Array | Uint32Array): string {
  return Buffer.from(buffer).toString("base64");
}

function numbers(value: unknown, name: string): Uint32Array {
  if (typeof value !== "string" || value.length % 4 !== 0) throw malformed(name, "base64", value);
  const padding = value.endsWith("==") ? 2 : Number(value.endsWith("="));
  const bytes = new Uint8Array((value.length / 4) * 3 - padding);
  // What is no base64 ends it early.
  const written = Buffer.from(bytes.buffer).write(value, "base64");
  if (written === bytes.length && written % 4 === 0) return new Uint32Array(bytes.buffer);
  throw malformed(name, "base64 of 32-bit numbers", value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = "Cannot read KV events: they must be JSON, they are not";
    throw new EngineError("INVALID_ARGUMENT", message, { cause });
  }
}

function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

function object(value: unknown, name: string): Readonly<Record<string, unknown>> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>; // JSON's keys are strings.
  }
  throw malformed(name, "an object", value);
}

function malformed(name: string, wanted: string, given: unknown): EngineError {
  const shown = typeof given === "object" && given !== null ? "an object or list" : String(given);
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot read KV events: ${name} must be ${wanted}, current value is ${shown.slice(0, 100)}`,
    { param: name },
  );
}
