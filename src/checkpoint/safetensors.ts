import { EngineError } from "#base";
import { type FileBytes, storedWeight } from "./file-bytes.ts";
import { invalidFile } from "./invalid-file.ts";
import type { NamedIntegers, NamedWeight, WeightDType } from "./named-weight.ts";
import { readSafetensorsHeader, type SafetensorsEntry } from "./safetensors-header.ts";

const WEIGHT_DTYPES: ReadonlyMap<string, WeightDType> = new Map([
  ["F32", "f32"],
  ["F16", "f16"],
  ["BF16", "bf16"],
]);

/** Integers that can be read. Old checkpoints also store masks and position tables, unread. */
const READ_INTEGERS: ReadonlyMap<string, NamedIntegers["elementBytes"]> = new Map([
  ["I64", 8],
  ["I32", 4],
  ["I8", 1],
]);
const INTEGER_DTYPES: ReadonlySet<string> = new Set([
  ...["I64", "U64", "I32", "U32", "I16", "U16", "I8", "U8", "BOOL"],
]);

/** The tensors of a safetensors file, by name. */
export interface SafetensorsTensors {
  readonly weights: ReadonlyMap<string, NamedWeight>;
  readonly integers: ReadonlyMap<string, NamedIntegers>;
}

/**
 * The float weights and the integers of a safetensors file. Only the header is read. Throws
 * CHECKPOINT_INVALID for a broken file, UNSUPPORTED_MODEL for float types that no device computes
 * with.
 */
export function readSafetensors(file: FileBytes): SafetensorsTensors {
  const weights = new Map<string, NamedWeight>();
  const integers = new Map<string, NamedIntegers>();
  for (const entry of readSafetensorsHeader(file).entries) {
    const { name } = entry;
    const dtype = WEIGHT_DTYPES.get(entry.dtype);
    if (dtype !== undefined) weights.set(name, storedWeight(file, { ...entry, dtype }));
    else if (READ_INTEGERS.has(entry.dtype)) integers.set(name, namedIntegers(file, entry));
    else if (!INTEGER_DTYPES.has(entry.dtype)) throw unsupportedDType(file.path, entry);
  }
  return { weights, integers };
}

function namedIntegers(file: FileBytes, entry: SafetensorsEntry): NamedIntegers {
  const { name, dtype, shape, startBytes, endBytes } = entry;
  return {
    ...{ name, shape, elementBytes: READ_INTEGERS.get(dtype) ?? 8 },
    values: () => integersOf(file, entry),
    bytes: () => file.read(startBytes, endBytes),
    discard: () => file.discard(startBytes, endBytes),
  };
}

function integersOf(file: FileBytes, entry: SafetensorsEntry): Int32Array {
  // A copy: elements of any offset can be read from it.
  const { buffer } = file.read(entry.startBytes, entry.endBytes).slice();
  if (entry.dtype === "I8") return Int32Array.from(new Int8Array(buffer));
  if (entry.dtype === "I32") return new Int32Array(buffer);
  return Int32Array.from(new BigInt64Array(buffer), (value) => {
    if (value === BigInt.asIntN(32, value)) return Number(value);
    const fault = { path: file.path, field: `tensor ${entry.name}` };
    throw invalidFile({ ...fault, must: "must have integers of 32 bits", actual: String(value) });
  });
}

function unsupportedDType(path: string, entry: SafetensorsEntry): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${path}: tensor ${entry.name}.dtype must be F32, F16 or BF16, current value is ` +
      `${entry.dtype}; use the unquantised checkpoint ` +
      '(quantization: "int8", --quantization int8, quantises it at load)',
    { param: `tensor ${entry.name}.dtype` },
  );
}
