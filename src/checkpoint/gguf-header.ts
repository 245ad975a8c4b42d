/**
 * The header of a GGUF file: magic, version, metadata, tensor descriptions. Versions 2 and 3,
 * little endian. Source: the GGUF specification (ggml-org/ggml, docs/gguf.md).
 */
import { EngineError } from "#base";
import { elementCount, type Shape } from "#tensor";
import { ByteCursor } from "./byte-cursor.ts";
import type { FileBytes } from "./file-bytes.ts";
import { GgufMetadata, type GgufValue, readGgufString, readGgufValue } from "./gguf-metadata.ts";
import {
  findGgufTensorType,
  type GgufTensorType,
  readableTypeNames,
  refusedTypeName,
} from "./gguf-tensor-types.ts";
import { invalidFile } from "./invalid-file.ts";

/** "GGUF" as a little-endian integer. */
const MAGIC = 0x46554747;
const DEFAULT_ALIGNMENT_BYTES = 32;
/** The fewest bytes of a metadata entry: key length, type, a one-byte value. */
const ENTRY_BYTES_MIN = 13;
/** The fewest of a tensor description: name length, rank, type, offset. */
const TENSOR_BYTES_MIN = 24;
const ENTRIES_MAX = 2 ** 16;
const TENSORS_MAX = 2 ** 18;
const RANK_MAX = 4;

/** One tensor as the file describes it; its range was checked to lie in the file. */
export interface GgufTensor {
  readonly name: string;
  readonly type: GgufTensorType;
  /** Outermost first; GGUF lists extents in reverse. */
  readonly shape: Shape;
  /** From the start of the file. */
  readonly startBytes: number;
  readonly sizeBytes: number;
}

export interface GgufHeader {
  readonly metadata: GgufMetadata;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

/** Reads and checks the header. Throws CHECKPOINT_INVALID or UNSUPPORTED_MODEL. */
export function readGgufHeader(file: FileBytes): GgufHeader {
  const cursor = new ByteCursor(file);
  checkVersion(cursor);
  const tensorCount = cursor.count("tensor count", TENSOR_BYTES_MIN, TENSORS_MAX);
  const entryCount = cursor.count("metadata count", ENTRY_BYTES_MIN, ENTRIES_MAX);
  const metadata = readMetadata(cursor, entryCount);
  const alignment = alignmentOf(metadata);
  const described: DescribedTensor[] = [];
  for (let index = 0; index < tensorCount; index++) described.push(readTensor(cursor, index));
  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  const tensors = described.map((tensor) => placed(tensor, { file, dataStart, alignment }));
  checkOverlap(file.path, tensors);
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  if (byName.size === tensors.length) return { metadata, tensors: byName };
  const must = "must be different for all tensors";
  throw invalidFile({ path: file.path, field: "tensor names", must, actual: "two are equal" });
}

function checkVersion(cursor: ByteCursor): void {
  const magic = cursor.u32("magic");
  if (magic !== MAGIC) {
    const actual = `0x${magic.toString(16)}`;
    const must = "must be GGUF (0x46554747)";
    throw invalidFile({ path: cursor.path, field: "magic", must, actual });
  }
  const version = cursor.u32("version");
  if (version === 2 || version === 3) return;
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${cursor.path}: version must be 2 or 3, little endian, current value is ` +
      `${version}; convert the model again with a current llama.cpp`,
    { param: "version" },
  );
}

function readMetadata(cursor: ByteCursor, count: number): GgufMetadata {
  const values = new Map<string, GgufValue>();
  for (let index = 0; index < count; index++) {
    const key = readGgufString(cursor, `metadata key ${index}`);
    if (values.has(key)) {
      const must = "must be different for all entries";
      throw invalidFile({ path: cursor.path, field: "metadata keys", must, actual: key });
    }
    values.set(key, readGgufValue(cursor, key));
  }
  return new GgufMetadata(cursor.path, values);
}

function alignmentOf(metadata: GgufMetadata): number {
  const key = "general.alignment";
  const alignment = metadata.findCount(key) ?? DEFAULT_ALIGNMENT_BYTES;
  // ggml requires a multiple of 8; a value above a huge page must be an error.
  if (alignment >= 8 && alignment % 8 === 0 && alignment <= 2 ** 21) return alignment;
  const must = "must be a multiple of 8 up to 2^21";
  throw invalidFile({ path: metadata.path, field: key, must, actual: alignment });
}

interface DescribedTensor {
  readonly name: string;
  readonly type: GgufTensorType;
  readonly shape: Shape;
  readonly offset: bigint;
}

function readTensor(cursor: ByteCursor, index: number): DescribedTensor {
  const name = readGgufString(cursor, `name of tensor ${index}`);
  const { path } = cursor;
  const rank = cursor.u32(`rank of tensor ${name}`);
  if (rank > RANK_MAX) {
    const must = `must be at most ${RANK_MAX}`;
    throw invalidFile({ path, field: `rank of tensor ${name}`, must, actual: rank });
  }
  const field = `shape of tensor ${name}`;
  const extents = Array.from({ length: rank }, () => cursor.u64(field));
  const type = tensorType(cursor, name);
  const shape = extents.map(Number).reverse();
  const count = elementCount(shape);
  if (!Number.isSafeInteger(count * type.blockBytes) || count < 1) {
    const must = "must have 1 to 2^45 elements";
    throw invalidFile({ path, field, must, actual: `[${extents.join(", ")}]` });
  }
  if ((shape.at(-1) ?? 1) % type.blockElements !== 0) {
    const must = `must have rows of whole blocks of ${type.blockElements} (${type.name})`;
    throw invalidFile({ path, field, must, actual: shape });
  }
  return { name, type, shape, offset: cursor.u64(`offset of tensor ${name}`) };
}

function tensorType(cursor: ByteCursor, tensor: string): GgufTensorType {
  const field = `type of tensor ${tensor}`;
  const id = cursor.u32(field);
  const type = findGgufTensorType(id);
  if (type !== null) return type;
  const refused = refusedTypeName(id);
  if (refused === null) {
    throw invalidFile({ path: cursor.path, field, must: "must be a known type", actual: id });
  }
  throw new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${cursor.path}: ${field} must be one of ${readableTypeNames()}, current value ` +
      `is ${refused}; use a file quantised to one of these, e.g. Q8_0 or Q4_K_M`,
    { param: field },
  );
}

interface Place {
  readonly file: FileBytes;
  readonly dataStart: number;
  readonly alignment: number;
}

function placed(tensor: DescribedTensor, place: Place): GgufTensor {
  const { name, type, shape, offset } = tensor;
  const field = `offset of tensor ${name}`;
  const { path, sizeBytes: fileBytes } = place.file;
  const sizeBytes = (elementCount(shape) / type.blockElements) * type.blockBytes;
  const last = fileBytes - place.dataStart - sizeBytes;
  if (last < 0 || offset > BigInt(last)) {
    const must = `must leave room for ${sizeBytes} bytes in a file of ${fileBytes}`;
    throw invalidFile({ path, field, must, actual: String(offset) });
  }
  if (Number(offset) % place.alignment !== 0) {
    const must = `must be a multiple of the alignment, ${place.alignment}`;
    throw invalidFile({ path, field, must, actual: String(offset) });
  }
  return { name, type, shape, startBytes: place.dataStart + Number(offset), sizeBytes };
}

function checkOverlap(path: string, tensors: readonly GgufTensor[]): void {
  const ordered = [...tensors].sort((a, b) => a.startBytes - b.startBytes);
  let reached = 0;
  for (const tensor of ordered) {
    if (tensor.startBytes < reached) {
      const field = `offset of tensor ${tensor.name}`;
      const must = `must not overlap another tensor, which ends at byte ${reached} of the file`;
      throw invalidFile({ path, field, must, actual: tensor.startBytes });
    }
    reached = tensor.startBytes + tensor.sizeBytes;
  }
}
