/** Weights of GGUF tensors: dequantised when read, and reordered to transformers' layout. */
import { assert } from "#base";
import { bytesOf, elementCount, type Shape, widen } from "#tensor";
import { type FileBytes, storedWeight } from "./file-bytes.ts";
import type { GgufTensor } from "./gguf-header.ts";
import { invalidFile } from "./invalid-file.ts";
import type { NamedWeight, PackedBlocks } from "./named-weight.ts";

/** How a converter changed a weight, which reading must undo. */
export type GgufLayout =
  | { readonly kind: "plain" }
  /**
   * Rows of each head interleaved for rope over neighbouring pairs; this project rotates halves.
   */
  | { readonly kind: "interleaved"; readonly heads: number }
  /** [out, in] where transformers' Conv1D keeps [in, out]. */
  | { readonly kind: "transposed" }
  /** Gemma's norms, which transformers stores as the difference to 1. */
  | { readonly kind: "plus-one" };

/** The weight in transformers' layout, with that name. */
export function ggufWeight(
  file: FileBytes,
  tensor: GgufTensor,
  as: { readonly name: string; readonly layout: GgufLayout },
): NamedWeight {
  const weight = { ...elementsOf(file, tensor), name: as.name };
  if (as.layout.kind === "plain") return weight;
  if (as.layout.kind === "interleaved") {
    checkHeads(file.path, tensor, as.layout.heads);
    return untangled(weight, as.layout.heads);
  }
  if (as.layout.kind === "transposed") {
    if (weight.shape.length !== 2) throw wrongRank(file.path, tensor, 2);
    return reordered(weight, [...weight.shape].reverse(), transposedOrder(weight.shape));
  }
  return lessOne(weight);
}

/** The matrices of a [E, rows, columns] tensor, one for each expert; none is copied. */
export function ggufExperts(file: FileBytes, tensor: GgufTensor): readonly NamedWeight[] {
  const [experts, ...shape] = tensor.shape;
  if (tensor.shape.length !== 3 || experts === undefined) throw wrongRank(file.path, tensor, 3);
  const sizeBytes = tensor.sizeBytes / experts;
  return Array.from({ length: experts }, (_, expert) => {
    const startBytes = tensor.startBytes + expert * sizeBytes;
    return elementsOf(file, { ...tensor, shape, startBytes, sizeBytes });
  });
}

function elementsOf(file: FileBytes, tensor: GgufTensor): NamedWeight {
  const { name, shape, type, startBytes, sizeBytes } = tensor;
  if (type.blocks === null) {
    return storedWeight(file, { name, dtype: type.dtype, shape, startBytes });
  }
  const { type: blockType, dequantize } = type.blocks;
  return {
    name,
    dtype: type.dtype,
    storedAs: type.name,
    shape,
    packed: {
      type: blockType,
      blockElements: type.blockElements,
      blockBytes: type.blockBytes,
      blocks: () => file.read(startBytes, startBytes + sizeBytes),
    },
    bytes() {
      const stored = file.read(startBytes, startBytes + sizeBytes);
      const view = new DataView(stored.buffer, stored.byteOffset, stored.byteLength);
      const out = new Float32Array(elementCount(shape));
      for (let at = 0, to = 0; at < sizeBytes; at += type.blockBytes, to += type.blockElements) {
        dequantize(view, at, out, to);
      }
      return new Uint8Array(out.buffer);
    },
    discard: () => file.discard(startBytes, startBytes + sizeBytes),
  };
}

/** The weight with rows in transformers' order; of a matrix, also its blocks. */
function untangled(weight: NamedWeight, heads: number): NamedWeight {
  const { shape, packed } = weight;
  const [rows = 0] = shape;
  const order = (row: number) => untangledRow(row, rows / heads);
  const floats = reordered(weight, shape, (out, source) => moveRows(out, source, rows, order));
  // A vector's rows are single elements, of which a block holds several.
  if (packed === undefined || shape.length !== 2) return floats;
  return { ...floats, packed: withRows(packed, rows, order) };
}

/** Row h·D + 2·i + j of the file is row h·D + j·D/2 + i of transformers (D rows a head). */
function untangledRow(row: number, headRows: number): number {
  const inHead = row % headRows;
  return row - inHead + (inHead % 2) * (headRows / 2) + (inHead >> 1);
}

/** The blocks with each row at its new place: rows are whole blocks. */
function withRows(
  packed: PackedBlocks,
  rows: number,
  order: (row: number) => number,
): PackedBlocks {
  return {
    ...packed,
    blocks() {
      const stored = packed.blocks();
      const out = new Uint8Array(stored.length);
      moveRows(out, stored, rows, order);
      return out;
    },
  };
}

type Elements = Uint8Array | Uint16Array | Uint32Array;

/** Writes each of the rows of `source` to its place in `out`. */
function moveRows(
  out: Elements,
  source: Elements,
  rows: number,
  order: (row: number) => number,
): void {
  const columns = source.length / rows;
  for (let row = 0; row < rows; row++) {
    out.set(source.subarray(row * columns, (row + 1) * columns), order(row) * columns);
  }
}

/** Moves elements of `source` to their places in `out`, which has the same length. */
type Reorder = (out: Elements, source: Elements) => void;

/** The weight without what is true of the file's own order of elements alone. */
function converted({ file: _file, packed: _packed, ...weight }: NamedWeight): NamedWeight {
  return weight;
}

/** Reordering moves bit patterns, so that one loop serves all element types. */
function reordered(weight: NamedWeight, shape: Shape, reorder: Reorder): NamedWeight {
  return {
    ...converted(weight),
    shape,
    bytes() {
      const stored = weight.bytes();
      const length = elementCount(shape);
      const wide = bytesOf(weight.dtype) === 4;
      const source = wide
        ? new Uint32Array(stored.buffer, stored.byteOffset, length)
        : new Uint16Array(stored.buffer, stored.byteOffset, length);
      const out = wide ? new Uint32Array(length) : new Uint16Array(length);
      reorder(out, source);
      return new Uint8Array(out.buffer);
    },
  };
}

function transposedOrder(shape: Shape): Reorder {
  const [rows = 0, columns = 0] = shape;
  return (out, source) => {
    for (let row = 0; row < rows; row++) {
      const values = source.subarray(row * columns, (row + 1) * columns);
      values.forEach((value, column) => {
        out[column * rows + row] = value;
      });
    }
  };
}

function lessOne(weight: NamedWeight): NamedWeight {
  return {
    ...converted(weight),
    dtype: "f32",
    bytes() {
      const values = toF32(weight);
      for (const [index, value] of values.entries()) values[index] = value - 1;
      return new Uint8Array(values.buffer);
    },
  };
}

/** All elements as f32, in a new array. */
export function toF32(weight: NamedWeight): Float32Array<ArrayBuffer> {
  const stored = weight.bytes();
  const length = elementCount(weight.shape);
  const out = new Float32Array(length);
  if (weight.dtype === "f32") out.set(new Float32Array(stored.buffer, stored.byteOffset, length));
  else widen(out, new Uint16Array(stored.buffer, stored.byteOffset, length), weight.dtype);
  return out;
}

function checkHeads(path: string, tensor: GgufTensor, heads: number): void {
  assert(heads >= 1, "a layout of no heads");
  const rows = tensor.shape[0] ?? 0;
  if (tensor.shape.length <= 2 && rows % (2 * heads) === 0) return;
  const must = `must have rows that ${heads} heads share in pairs`;
  throw invalidFile({ path, field: `shape of tensor ${tensor.name}`, must, actual: tensor.shape });
}

function wrongRank(path: string, tensor: GgufTensor, rank: number): Error {
  const field = `shape of tensor ${tensor.name}`;
  return invalidFile({ path, field, must: `must have ${rank} extents`, actual: tensor.shape });
}
