/** The weights of a quantised checkpoint: the parts of each module become one matrix of floats. */
import { awqMatrix } from "./awq-matrix.ts";
import { compressedMatrix } from "./compressed-matrix.ts";
import { gptqMatrix } from "./gptq-matrix.ts";
import { invalidFile } from "./invalid-file.ts";
import { lazyValue } from "./lazy-value.ts";
import type { NamedIntegers, NamedWeight } from "./named-weight.ts";
import { exactBlocks } from "./quantized-blocks.ts";
import { dequantized } from "./quantized-matrix.ts";
import { type ModuleTensors, QuantizedModule, type StoredMatrix } from "./quantized-module.ts";
import type { WeightQuantization } from "./weight-quantization.ts";

/** Weights and tables, and the size of all weights in their files. */
export interface WholeWeights {
  readonly tensors: ReadonlyMap<string, NamedWeight>;
  readonly integers: ReadonlyMap<string, NamedIntegers>;
  /** Of quantised weights, with their scales and zeros. */
  readonly quantizedBytes: number;
}

/**
 * Gathers the parts: each module gets a tensor `weight` of f32, its parts are none of the tensors
 * any more. Throws CHECKPOINT_INVALID where parts are missing or their shapes do not fit.
 */
export function wholeWeights(from: ModuleTensors, scheme: WeightQuantization): WholeWeights {
  const tensors = new Map(from.tensors);
  const integers = new Map(from.integers);
  let quantizedBytes = 0;
  for (const name of modulesOf(from, scheme)) {
    const module = new QuantizedModule(from, name);
    const matrix = matrixOf(module, scheme);
    const weight = weightOf(module, matrix, scheme);
    if (tensors.has(weight.name)) {
      throw module.fault("weight", "must be the only one of its module", "another");
    }
    for (const part of module.used.keys()) {
      tensors.delete(part);
      integers.delete(part);
    }
    tensors.set(weight.name, weight);
    quantizedBytes += module.storedBytes;
  }
  return { tensors, integers, quantizedBytes };
}

/** The part of quanta, by which modules are found. */
function quantaPart(scheme: WeightQuantization): string {
  if (scheme.method !== "compressed-tensors") return ".qweight";
  return scheme.layout === "packed" ? ".weight_packed" : ".weight";
}

function modulesOf(from: ModuleTensors, scheme: WeightQuantization): readonly string[] {
  const part = quantaPart(scheme);
  const found = [...from.integers.values()]
    .filter(({ name, elementBytes }) => name.endsWith(part) && elementBytes < 8)
    .map(({ name }) => name.slice(0, -part.length));
  if (found.length > 0) return found;
  const must = `must have tensors *${part} (${scheme.method} in config.json)`;
  throw invalidFile({ path: from.path, field: "weights", must, actual: "none" });
}

function matrixOf(module: QuantizedModule, scheme: WeightQuantization): StoredMatrix {
  switch (scheme.method) {
    case "awq":
      return awqMatrix(module, scheme);
    case "gptq":
      return gptqMatrix(module, scheme);
    case "compressed-tensors":
      return compressedMatrix(module, scheme);
  }
}

function weightOf(
  module: QuantizedModule,
  matrix: StoredMatrix,
  scheme: WeightQuantization,
): NamedWeight {
  // Whether blocks mean the same is seen in scales and zeros: they are read when it is asked for.
  const blocks = lazyValue(() => exactBlocks(matrix));
  return {
    name: `${module.name}.weight`,
    dtype: "f32",
    storedAs: storedName(scheme),
    shape: [matrix.rows, matrix.columns],
    get packed() {
      return blocks();
    },
    bytes() {
      const values = dequantized({ ...matrix.scaling(), quanta: matrix.quanta() });
      return new Uint8Array(values.buffer);
    },
    discard() {
      for (const part of module.used.values()) part.discard();
    },
  };
}

/** E.g. `awq-int4-g128`, `compressed-int8-row`. */
function storedName(scheme: WeightQuantization): string {
  const method = scheme.method === "compressed-tensors" ? "compressed" : scheme.method;
  const whole = scheme.method === "compressed-tensors" && scheme.scales === "matrix";
  const scales = scheme.groupColumns === null ? "row" : `g${scheme.groupColumns}`;
  return `${method}-int${scheme.bits}-${whole ? "matrix" : scales}`;
}
