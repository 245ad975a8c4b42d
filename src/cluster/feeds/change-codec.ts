/**
 * Our own workers' events as they are kept in Redis: already changes, packed. A token takes four
 * bytes and a name eight, where the JSON of the HTTP stream takes some fifty and twenty.
 */
import { decode, encode } from "@msgpack/msgpack";
import { EngineError } from "#base";
import type { BlockNames, KvChange, KvLevel } from "#cluster/protocol";
import { malformed, number } from "./engine-fields.ts";
import { isBounded } from "./msgpack-bounds.ts";
import type { WorkerScope } from "./worker-scope.ts";

const EVENTS_MAX = 2 ** 12;
const CHANGES_MAX = 2 ** 12;
const GROUP_MAX = 2 ** 16;
const TEXT_LENGTH_MAX = 1024;

/** Packs the changes of some events; one list per event, also where it says nothing. */
export function packChanges(events: readonly (readonly KvChange[])[]): Uint8Array {
  return encode(events.map((changes) => changes.map(packed)));
}

/**
 * Unpacks them. All are of the worker's own model and block size. Throws INVALID_ARGUMENT for what
 * is not packed so.
 */
export function unpackChanges(scope: WorkerScope, bytes: Uint8Array): KvChange[][] {
  const events = isBounded(bytes) ? decoded(bytes) : null;
  return list(events, "events", EVENTS_MAX).map((changes) =>
    list(changes, "changes", CHANGES_MAX).map((change) => unpacked(scope, change)),
  );
}

function packed(change: KvChange): unknown[] {
  switch (change.type) {
    case "stored": {
      const { scope, level, parent, names, tokens } = change;
      const { group, salt, lora } = scope;
      const above = parent === null ? null : bytesOf(parent);
      return ["stored", level, group, salt, lora, above, bytesOf(names), bytesOf(tokens)];
    }
    case "removed":
      return ["removed", change.level, bytesOf(change.names)];
    case "moved":
      return ["moved", change.from, change.to, bytesOf(change.names)];
    case "cleared":
      return ["cleared", change.level];
  }
}

function unpacked({ model, blockTokens }: WorkerScope, value: unknown): KvChange {
  const [type, ...fields] = list(value, "change", 8);
  switch (type) {
    case "stored": {
      const [level, group, salt, lora, parent, names, tokens] = fields;
      const change = {
        type,
        scope: {
          model,
          blockTokens,
          salt: text(salt, "salt"),
          lora: text(lora, "lora"),
          group: number(group, "group", GROUP_MAX),
        },
        level: levelOf(level),
        parent: parent === null ? null : namesOf(parent, 1),
        names: namesOf(names),
        tokens: numbers(tokens, "tokens"),
      } as const;
      if (change.tokens.length * 2 === change.names.length * blockTokens) return change;
      throw malformed(
        "tokens",
        `${blockTokens} per block, as the worker says`,
        change.tokens.length,
      );
    }
    case "removed":
      return { type, level: levelOrAll(fields[0]), names: namesOf(fields[1]) };
    case "moved":
      return { type, from: levelOf(fields[0]), to: levelOf(fields[1]), names: namesOf(fields[2]) };
    case "cleared":
      return { type, level: levelOrAll(fields[0]) };
    default:
      throw malformed("change", "stored, removed, moved or cleared", type);
  }
}

function decoded(bytes: Uint8Array): unknown {
  try {
    return decode(bytes);
  } catch (cause) {
    const message = "Cannot read KV events: they must be msgpack, they are not";
    throw new EngineError("INVALID_ARGUMENT", message, { cause });
  }
}

/** Little-endian, as on all machines that run this. */
function bytesOf(values: Uint32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

function numbers(value: unknown, name: string): Uint32Array {
  if (!(value instanceof Uint8Array) || value.length % 4 !== 0) {
    throw malformed(name, "bytes of 32-bit numbers", value);
  }
  // A copy: the bytes lie anywhere in what was received. A Buffer's `slice` would be none.
  return new Uint32Array(Uint8Array.from(value).buffer);
}

function namesOf(value: unknown, count?: number): BlockNames {
  const names = numbers(value, "names");
  const isWhole = names.length % 2 === 0 && names.length > 0;
  if (isWhole && (count === undefined || names.length === count * 2)) return names;
  throw malformed("names", "64-bit numbers", names.length);
}

function levelOf(value: unknown): KvLevel {
  if (value === 0 || value === 1 || value === 2) return value;
  throw malformed("level", "0, 1 or 2", value);
}

function levelOrAll(value: unknown): KvLevel | null {
  return value === null ? null : levelOf(value);
}

function text(value: unknown, name: string): string | null {
  if (value === null || (typeof value === "string" && value.length <= TEXT_LENGTH_MAX))
    return value;
  throw malformed(name, `a text of at most ${TEXT_LENGTH_MAX} characters`, value);
}

function list(value: unknown, name: string, most: number): readonly unknown[] {
  if (Array.isArray(value) && value.length <= most) return value;
  throw malformed(name, `a list of at most ${most}`, value);
}
