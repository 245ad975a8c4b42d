/**
 * Two layouts of compressed-tensors: "pack-quantized" holds columns (inputs) in words of 32 bits,
 * signed integers with half their range added, and zeros in words of rows; "int-quantized" holds
 * signed bytes. Scales are [R, G]; [R, 1] for a scale per row, [1] or a scalar for one in all.
 * Source: the formats of vllm-project/compressed-tensors.
 */
import { elementCount } from "#tensor";
import type { NamedIntegers, NamedWeight } from "./named-weight.ts";
import { unpackColumns, unpackRows } from "./quantized-matrix.ts";
import {
  groupCountOf,
  groupsInOrder,
  groupsStored,
  type QuantizedModule,
  type StoredMatrix,
  scalesOf,
} from "./quantized-module.ts";
import type { CompressedQuantization } from "./weight-quantization.ts";

/** Finds and checks the parts of a module. Throws CHECKPOINT_INVALID. */
export function compressedMatrix(
  module: QuantizedModule,
  scheme: CompressedQuantization,
): StoredMatrix {
  const { rows, columns, quanta } =
    scheme.layout === "packed" ? packedQuanta(module, scheme) : byteQuanta(module, scheme);
  const groupColumns = scheme.scales === "group" ? scheme.groupColumns : null;
  const groupCount = groupCountOf(columns, groupColumns);
  const scales = scalesPart(module, scheme, [rows, groupCount]);
  const zeros = scheme.symmetric ? null : zerosPart(module, scheme, [rows, groupCount]);
  const index = module.findIntegers("weight_g_idx", 4);
  if (index !== null) module.check("weight_g_idx", index.shape, [columns]);
  const scaling = () => ({
    scales: spread(scalesOf(scales), rows * groupCount),
    zeros: zeros?.() ?? new Uint8Array(rows * groupCount).fill(halfOf(scheme)),
    groups:
      index === null
        ? groupsInOrder(columns, groupColumns)
        : groupsStored(module, "weight_g_idx", index, groupCount),
  });
  return { rows, columns, quanta, scaling };
}

/** What is added to signed integers: then all are unsigned. */
function halfOf({ layout, bits }: CompressedQuantization): number {
  return layout === "bytes" ? 128 : 1 << (bits - 1);
}

interface Quanta {
  readonly rows: number;
  readonly columns: number;
  readonly quanta: () => Uint8Array;
}

function packedQuanta(module: QuantizedModule, { bits }: CompressedQuantization): Quanta {
  const weight = module.integers("weight_packed", 4);
  const [rows, words] = module.extents("weight_packed", weight.shape);
  const shape = module.integers("weight_shape", 8);
  module.check("weight_shape", shape.shape, [2]);
  const [statedRows, columns = 0] = shape.values();
  if (statedRows !== rows || Math.ceil((columns * bits) / 32) !== words) {
    const must = `must fit ${words} words of ${bits} bits in each of ${rows} rows`;
    throw module.fault("weight_shape", must, `[${[statedRows, columns].join(", ")}]`);
  }
  const size = { rows, columns };
  return { ...size, quanta: () => unpackColumns(weight.values(), size, bits) };
}

function byteQuanta(module: QuantizedModule, scheme: CompressedQuantization): Quanta {
  const weight = module.integers("weight", 1);
  const [rows, columns] = module.extents("weight", weight.shape);
  return { rows, columns, quanta: () => unsigned(weight, halfOf(scheme)) };
}

/** Signed bytes with half their range added. */
function unsigned(integers: NamedIntegers, half: number): Uint8Array {
  return Uint8Array.from(integers.bytes(), (byte) => (byte + half) & 255);
}

function scalesPart(
  module: QuantizedModule,
  scheme: CompressedQuantization,
  shape: readonly [rows: number, groups: number],
): NamedWeight {
  if (scheme.scales !== "matrix") return module.floats("weight_scale", shape);
  const scale = module.floats("weight_scale");
  if (elementCount(scale.shape) === 1) return scale;
  throw module.fault("weight_scale", "must be one number", `[${scale.shape.join(", ")}]`);
}

/** Reads zeros of the shape, each with half the range added. */
function zerosPart(
  module: QuantizedModule,
  scheme: CompressedQuantization,
  shape: readonly [rows: number, groups: number],
): () => Uint8Array {
  const [rows, columns] = shape;
  if (scheme.layout === "packed" && scheme.scales !== "matrix") {
    const zeros = module.integers("weight_zero_point", 4);
    const words = Math.ceil((rows * scheme.bits) / 32);
    module.check("weight_zero_point", zeros.shape, [words, columns]);
    return () => unpackRows(zeros.values(), { rows, columns }, scheme.bits);
  }
  const zeros = module.integers("weight_zero_point", 1);
  if (scheme.scales !== "matrix") module.check("weight_zero_point", zeros.shape, shape);
  else if (elementCount(zeros.shape) !== 1) {
    const actual = `[${zeros.shape.join(", ")}]`;
    throw module.fault("weight_zero_point", "must be one number", actual);
  }
  return () => spread(unsigned(zeros, halfOf(scheme)), rows * columns);
}

/** One number as many; many as they are. */
function spread<Elements extends Uint8Array | Float32Array>(
  values: Elements,
  count: number,
): Elements;
function spread(values: Uint8Array | Float32Array, count: number): Uint8Array | Float32Array {
  if (values.length === count) return values;
  const [only = 0] = values;
  return values instanceof Uint8Array
    ? new Uint8Array(count).fill(only)
    : new Float32Array(count).fill(only);
}
