import { EngineError } from "#base";
import { type FileBytes, storedWeight } from "./file-bytes.ts";
import type { NamedWeight, WeightDType } from "./named-weight.ts";
import { readSafetensorsHeader, type SafetensorsEntry } from "./safetensors-header.ts";

const WEIGHT_DTYPES: ReadonlyMap<string, WeightDType> = new Map([
  ["F32", "f32"],
  ["F16", "f16"],
  ["BF16", "bf16"],
]);

/** Old checkpoints store masks and position tables as integers; no model reads them. */
const INTEGER_DTYPES: ReadonlySet<string> = new Set([
  ...["I64", "U64", "I32", "U32", "I16", "U16", "I8", "U8", "BOOL"],
]);

/**
 * The float weights of a safetensors file, by name; integer tensors are left out. Only the header
 * is read. Throws CHECKPOINT_INVALID for a broken file, UNSUPPORTED_MODEL for float types that no
 * device computes with.
 */
export function readSafetensors(file: FileBytes): ReadonlyMap<string, NamedWeight> {
  const weights = new Map<string, NamedWeight>();
  for (const entry of readSafetensorsHeader(file).entries) {
    const dtype = WEIGHT_DTYPES.get(entry.dtype);
    if (dtype !== undefined) weights.set(entry.name, storedWeight(file, { ...entry, dtype }));
    else if (!INTEGER_DTYPES.has(entry.dtype)) throw unsupportedDType(file.path, entry);
  }
  return weights;
}

function unsupportedDType(path: string, entry: SafetensorsEntry): EngineError {
  return new EngineError(
    "UNSUPPORTED_MODEL",
    `Cannot load ${path}: tensor ${entry.name}.dtype must be F32, F16 or BF16, current value is ` +
      `${entry.dtype}; use the unquantised checkpoint (--quantization int8 quantises it at load)`,
    { param: `tensor ${entry.name}.dtype` },
  );
}
