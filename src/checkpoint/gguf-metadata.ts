/** GGUF's key-value metadata: reading, limits, and typed access. */
import { EngineError } from "#base";
import type { ByteCursor } from "./byte-cursor.ts";
import { invalidFile } from "./invalid-file.ts";
import { TextList } from "./text-list.ts";

export type GgufScalar = number | bigint | boolean | string;
export type GgufValue = GgufScalar | readonly GgufScalar[] | TextList;

/** Chat templates and licences are the longest strings; the longest known one has 60 kB. */
const STRING_BYTES_MAX = 2 ** 24;
/** Vocabularies hold up to 300,000 tokens and as many merges. */
const ARRAY_LENGTH_MAX = 2 ** 22;
const ARRAY_TYPE = 9;
const STRING_TYPE = 8;

interface ScalarType {
  readonly bytes: number;
  readonly read: (cursor: ByteCursor, field: string) => GgufScalar;
}

/** By GGUF's type number; 9 is the array. A string takes at least its length field. */
const SCALAR_TYPES: ReadonlyMap<number, ScalarType> = new Map<number, ScalarType>([
  [0, { bytes: 1, read: (cursor, field) => cursor.u8(field) }],
  [1, { bytes: 1, read: (cursor, field) => cursor.i8(field) }],
  [2, { bytes: 2, read: (cursor, field) => cursor.u16(field) }],
  [3, { bytes: 2, read: (cursor, field) => cursor.i16(field) }],
  [4, { bytes: 4, read: (cursor, field) => cursor.u32(field) }],
  [5, { bytes: 4, read: (cursor, field) => cursor.i32(field) }],
  [6, { bytes: 4, read: (cursor, field) => cursor.f32(field) }],
  [7, { bytes: 1, read: readBoolean }],
  [STRING_TYPE, { bytes: 8, read: readGgufString }],
  [10, { bytes: 8, read: (cursor, field) => narrowed(cursor.u64(field)) }],
  [11, { bytes: 8, read: (cursor, field) => narrowed(cursor.i64(field)) }],
  [12, { bytes: 8, read: (cursor, field) => cursor.f64(field) }],
]);

/** Reads one value after its type number. Arrays of arrays are refused: no known file has them. */
export function readGgufValue(cursor: ByteCursor, key: string): GgufValue {
  const type = cursor.u32(`type of ${key}`);
  if (type !== ARRAY_TYPE) return scalarType(cursor, type, key).read(cursor, key);
  const itemType = cursor.u32(`item type of ${key}`);
  const item = scalarType(cursor, itemType, key);
  const length = cursor.count(`length of ${key}`, item.bytes, ARRAY_LENGTH_MAX);
  if (itemType === STRING_TYPE) return readTexts(cursor, length, key);
  const values: GgufScalar[] = [];
  for (let index = 0; index < length; index++) values.push(item.read(cursor, key));
  return values;
}

function readTexts(cursor: ByteCursor, length: number, key: string): TextList {
  const texts = new TextList(length);
  for (let index = 0; index < length; index++) {
    texts.push(cursor.bytes(cursor.count(`length of ${key}`, 1, STRING_BYTES_MAX), key));
  }
  return texts;
}

/** Reads a string: u64 length, UTF-8 bytes. */
export function readGgufString(cursor: ByteCursor, field: string): string {
  return cursor.text(cursor.count(`length of ${field}`, 1, STRING_BYTES_MAX), field);
}

function scalarType(cursor: ByteCursor, type: number, key: string): ScalarType {
  const found = SCALAR_TYPES.get(type);
  if (found !== undefined) return found;
  const must = "must be 0 to 12 (9 for an array, which cannot hold arrays)";
  throw invalidFile({ path: cursor.path, field: `type of ${key}`, must, actual: type });
}

function readBoolean(cursor: ByteCursor, field: string): boolean {
  const byte = cursor.u8(field);
  if (byte <= 1) return byte === 1;
  throw invalidFile({ path: cursor.path, field, must: "must be 0 or 1", actual: byte });
}

/** As a number where that is exact. */
function narrowed(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** The metadata of one file, accessed by key and type. A wrong type is an error of the file. */
export class GgufMetadata {
  readonly path: string;
  readonly #values: ReadonlyMap<string, GgufValue>;

  constructor(path: string, values: ReadonlyMap<string, GgufValue>) {
    this.path = path;
    this.#values = values;
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  /** Null if the key is absent. */
  findText(key: string): string | null {
    const value = this.#values.get(key) ?? null;
    if (value === null || typeof value === "string") return value;
    throw this.#wrong(key, "must be a string", value);
  }

  findBoolean(key: string): boolean | null {
    const value = this.#values.get(key) ?? null;
    if (value === null || typeof value === "boolean") return value;
    throw this.#wrong(key, "must be a boolean", value);
  }

  /** A finite number. */
  findNumber(key: string): number | null {
    const value = this.#values.get(key) ?? null;
    if (value === null) return null;
    if (typeof value === "number" && Number.isFinite(value)) return value;
    throw this.#wrong(key, "must be a finite number", value);
  }

  /** An integer >= 0 that fits 32 bits. Of a list with one value per layer, that value. */
  findCount(key: string): number | null {
    const found = this.#values.get(key) ?? null;
    if (found === null) return null;
    if (found instanceof TextList) throw this.#wrong(key, "must be an integer", "strings");
    const value = typeof found === "object" ? this.#sameForAll(key, found) : found;
    if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 2 ** 31) {
      return value;
    }
    throw this.#wrong(key, "must be an integer from 0 to 2^31 - 1", value);
  }

  getText(key: string): string {
    return this.findText(key) ?? this.#missing(key);
  }

  getNumber(key: string): number {
    return this.findNumber(key) ?? this.#missing(key);
  }

  /** An integer >= 1. */
  getCount(key: string): number {
    const value = this.findCount(key) ?? this.#missing(key);
    if (value >= 1) return value;
    throw this.#wrong(key, "must be at least 1", value);
  }

  /** Null if the key is absent. */
  findTexts(key: string): readonly string[] | null {
    const value = this.#values.get(key) ?? null;
    if (value === null) return null;
    if (value instanceof TextList) return value.decode();
    throw this.#wrong(key, "must be an array of strings", value);
  }

  findNumbers(key: string): readonly number[] | null {
    const value = this.#values.get(key) ?? null;
    if (value === null) return null;
    if (Array.isArray(value) && value.every((item) => typeof item === "number")) return value;
    throw this.#wrong(key, "must be an array of numbers", value);
  }

  #sameForAll(key: string, values: readonly GgufScalar[]): GgufScalar {
    const [first] = values;
    if (first !== undefined && values.every((value) => value === first)) return first;
    throw new EngineError(
      "UNSUPPORTED_MODEL",
      `Cannot load ${this.path}: ${key} must be equal for all layers, current value is ` +
        `[${values.slice(0, 8).join(", ")}]; models whose layers differ are not supported`,
      { param: key },
    );
  }

  #missing(key: string): never {
    throw this.#wrong(key, "must be present in the metadata", "missing");
  }

  #wrong(field: string, must: string, actual: unknown): EngineError {
    const shown =
      typeof actual === "bigint" ? String(actual) : actual instanceof TextList ? "strings" : actual;
    return invalidFile({ path: this.path, field, must, actual: shown });
  }
}
