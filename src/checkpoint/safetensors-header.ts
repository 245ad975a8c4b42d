/**
 * The safetensors header, checked before it is used: eight bytes of length, JSON that
 * names every tensor, then the tensors' bytes without gaps. As strict as Hugging Face's own reader
 * (https://github.com/huggingface/safetensors, "Format").
 */
import type { Shape } from "#tensor";
import type { FileBytes } from "./file-bytes.ts";
import { invalidFile } from "./invalid-file.ts";
import { duplicateKey } from "./json-duplicates.ts";
import { type JsonObject, parseJsonObject } from "./json-text.ts";

/** The limit of Hugging Face's reader. */
const HEADER_BYTES_MAX = 100_000_000;
const LENGTH_BYTES = 8;

/** Bits per element. Types below a byte must fill whole bytes. */
const DTYPE_BITS: ReadonlyMap<string, number> = new Map([
  ...["F64", "I64", "U64", "C64"].map((name) => [name, 64] as const),
  ...["F32", "I32", "U32"].map((name) => [name, 32] as const),
  ...["F16", "BF16", "I16", "U16"].map((name) => [name, 16] as const),
  ...["I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"].map((name) => [name, 8] as const),
  ...["F6_E2M3", "F6_E3M2"].map((name) => [name, 6] as const),
  ["F4", 4],
]);

/** One tensor as the header describes it; its range was checked to lie in the file. */
export interface SafetensorsEntry {
  readonly name: string;
  /** As the file writes it, e.g. `BF16`, `I64`. */
  readonly dtype: string;
  readonly shape: Shape;
  /** From the start of the file. */
  readonly startBytes: number;
  readonly endBytes: number;
}

export interface SafetensorsHeader {
  /** In the order of their bytes. */
  readonly entries: readonly SafetensorsEntry[];
  readonly metadata: Readonly<Record<string, string>>;
}

/** Reads and checks the header. Throws CHECKPOINT_INVALID, which names the file and the field. */
export function readSafetensorsHeader(file: FileBytes): SafetensorsHeader {
  const headerBytes = headerLength(file);
  const dataStart = LENGTH_BYTES + headerBytes;
  const text = headerText(file, dataStart);
  const json = parseJsonObject(text, { path: file.path, field: "header" });
  const repeated = duplicateKey(text);
  if (repeated !== null) {
    throw invalidFile({
      path: file.path,
      field: "header",
      must: "must name everything once",
      actual: `two of "${repeated}"`,
    });
  }
  const entries: SafetensorsEntry[] = [];
  for (const [name, value] of Object.entries(json)) {
    if (name !== "__metadata__") entries.push(entryOf({ file, dataStart }, name, value));
  }
  entries.sort((a, b) => a.startBytes - b.startBytes || a.endBytes - b.endBytes);
  checkCoverage({ file, dataStart }, entries);
  return { entries, metadata: metadataOf(file.path, json) };
}

function headerLength(file: FileBytes): number {
  const field = "header length";
  const { path, sizeBytes } = file;
  if (sizeBytes < LENGTH_BYTES) {
    throw invalidFile({ path, field, must: "must take 8 bytes", actual: sizeBytes });
  }
  const bytes = file.read(0, LENGTH_BYTES);
  const stated = new DataView(bytes.buffer, bytes.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  const most = Math.min(HEADER_BYTES_MAX, sizeBytes - LENGTH_BYTES);
  if (stated > BigInt(most)) {
    const must = `must be at most ${most} in a file of ${sizeBytes} bytes`;
    throw invalidFile({ path, field, must, actual: String(stated) });
  }
  return Number(stated);
}

function headerText(file: FileBytes, dataStart: number): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(file.read(LENGTH_BYTES, dataStart));
  } catch (cause) {
    const fault = {
      path: file.path,
      field: "header",
      must: "must be UTF-8",
      actual: "other bytes",
    };
    throw invalidFile({ ...fault, cause });
  }
}

interface Place {
  readonly file: FileBytes;
  readonly dataStart: number;
}

function entryOf(place: Place, name: string, value: unknown): SafetensorsEntry {
  const { path } = place.file;
  const fault = (part: string, must: string, actual: unknown) =>
    invalidFile({ path, field: `tensor ${name}${part}`, must, actual });
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw fault("", "must be an object", value);
  }
  const { dtype, shape, data_offsets: offsets } = value as Readonly<Record<string, unknown>>;
  const bits = typeof dtype === "string" ? DTYPE_BITS.get(dtype) : undefined;
  if (typeof dtype !== "string" || bits === undefined) {
    throw fault(".dtype", `must be one of ${[...DTYPE_BITS.keys()].join(", ")}`, dtype);
  }
  if (!isCounts(shape)) throw fault(".shape", "must be an array of integers >= 0", shape);
  const wantedBits = shape.reduce((product, extent) => product * extent, bits);
  // An extent of 0 must not hide an overflow of the others.
  const spread = shape.reduce((product, extent) => product * Math.max(extent, 1), bits);
  if (!Number.isSafeInteger(spread) || wantedBits % 8 !== 0) {
    throw fault(".shape", "must have a size in whole bytes below 2^50", shape);
  }
  const dataBytes = place.file.sizeBytes - place.dataStart;
  if (!isCounts(offsets) || offsets.length !== 2) {
    throw fault(".data_offsets", "must be two integers >= 0", offsets);
  }
  const [start = 0, end = 0] = offsets;
  if (start > end || end > dataBytes) {
    throw fault(".data_offsets", `must be a range within ${dataBytes} bytes of data`, offsets);
  }
  if (end - start !== wantedBits / 8) {
    const must = `must span ${wantedBits / 8} bytes (${dtype}, shape [${shape.join(", ")}])`;
    throw fault(".data_offsets", must, offsets);
  }
  const at = place.dataStart;
  return { name, dtype, shape, startBytes: at + start, endBytes: at + end };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item) && item >= 0);
}

/** The tensors must be contiguous: no overlap, no gap, nothing behind the last one. */
function checkCoverage(place: Place, entries: readonly SafetensorsEntry[]): void {
  const { path, sizeBytes } = place.file;
  let reached = place.dataStart;
  for (const entry of entries) {
    if (entry.startBytes !== reached) {
      const overlap = entry.startBytes < reached;
      throw invalidFile({
        path,
        field: `tensor ${entry.name}.data_offsets`,
        must: `must begin where the last tensor ends, at ${reached - place.dataStart}`,
        actual: `${entry.startBytes - place.dataStart} (${overlap ? "an overlap" : "a gap"})`,
      });
    }
    reached = entry.endBytes;
  }
  if (reached !== sizeBytes) {
    const must = `must be ${reached} bytes, the end of the last tensor`;
    throw invalidFile({ path, field: "file size", must, actual: sizeBytes });
  }
}

function metadataOf(path: string, json: JsonObject): Readonly<Record<string, string>> {
  const value = json.__metadata__;
  if (value === undefined) return {};
  const strings =
    typeof value === "object" &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((item) => typeof item === "string");
  if (!strings) {
    const must = "must be an object of strings";
    throw invalidFile({ path, field: "__metadata__", must, actual: value });
  }
  // Every value was checked to be a string.
  return value as Readonly<Record<string, string>>;
}
