/**
 * How GGUF stores elements: plain floats, or blocks of quantised values that share a scale.
 * Source: the GGUF specification (ggml-org/ggml, docs/gguf.md) and its quantisation formats.
 */

import type { BlockType } from "#tensor";
import {
  dequantizeQ4_0,
  dequantizeQ4_1,
  dequantizeQ5_0,
  dequantizeQ5_1,
  dequantizeQ8_0,
} from "./gguf-dequantize.ts";
import {
  dequantizeQ2K,
  dequantizeQ3K,
  dequantizeQ4K,
  dequantizeQ5K,
  dequantizeQ6K,
} from "./gguf-dequantize-k.ts";
import { dequantizeIQ4NL, dequantizeIQ4XS, dequantizeMXFP4 } from "./gguf-dequantize-table.ts";
import type { WeightDType } from "./named-weight.ts";

/** Writes the values of the block that begins at byte `at` to `out`, from element `to` on. */
export type BlockDequantizer = (block: DataView, at: number, out: Float32Array, to: number) => void;

export interface GgufTensorType {
  readonly name: string;
  /** Elements that share a block; 1 for plain types. Rows are whole blocks. */
  readonly blockElements: number;
  readonly blockBytes: number;
  /** The element type of the weight after reading; f32 for all quantised ones. */
  readonly dtype: WeightDType;
  /** What its blocks hold; null for plain types. */
  readonly blocks: { readonly type: BlockType; readonly dequantize: BlockDequantizer } | null;
}

function plain(name: string, blockBytes: number, dtype: WeightDType): GgufTensorType {
  return { name, blockElements: 1, blockBytes, dtype, blocks: null };
}

function blocks(
  type: BlockType,
  size: { readonly elements: number; readonly bytes: number },
  dequantize: BlockDequantizer,
): GgufTensorType {
  const { elements: blockElements, bytes: blockBytes } = size;
  return { name: type, blockElements, blockBytes, dtype: "f32", blocks: { type, dequantize } };
}

const TYPES: ReadonlyMap<number, GgufTensorType> = new Map([
  [0, plain("F32", 4, "f32")],
  [1, plain("F16", 2, "f16")],
  [2, blocks("Q4_0", { elements: 32, bytes: 18 }, dequantizeQ4_0)],
  [3, blocks("Q4_1", { elements: 32, bytes: 20 }, dequantizeQ4_1)],
  [6, blocks("Q5_0", { elements: 32, bytes: 22 }, dequantizeQ5_0)],
  [7, blocks("Q5_1", { elements: 32, bytes: 24 }, dequantizeQ5_1)],
  [8, blocks("Q8_0", { elements: 32, bytes: 34 }, dequantizeQ8_0)],
  [10, blocks("Q2_K", { elements: 256, bytes: 84 }, dequantizeQ2K)],
  [11, blocks("Q3_K", { elements: 256, bytes: 110 }, dequantizeQ3K)],
  [12, blocks("Q4_K", { elements: 256, bytes: 144 }, dequantizeQ4K)],
  [13, blocks("Q5_K", { elements: 256, bytes: 176 }, dequantizeQ5K)],
  [14, blocks("Q6_K", { elements: 256, bytes: 210 }, dequantizeQ6K)],
  [20, blocks("IQ4_NL", { elements: 32, bytes: 18 }, dequantizeIQ4NL)],
  [23, blocks("IQ4_XS", { elements: 256, bytes: 136 }, dequantizeIQ4XS)],
  [30, plain("BF16", 2, "bf16")],
  [39, blocks("MXFP4", { elements: 32, bytes: 17 }, dequantizeMXFP4)],
]);

/** The other GGUF type numbers, for messages about unsupported types. */
const REFUSED: ReadonlyMap<number, string> = new Map([
  [9, "Q8_1"],
  [15, "Q8_K"],
  [16, "IQ2_XXS"],
  [17, "IQ2_XS"],
  [18, "IQ3_XXS"],
  [19, "IQ1_S"],
  [21, "IQ3_S"],
  [22, "IQ2_S"],
  [24, "I8"],
  [25, "I16"],
  [26, "I32"],
  [27, "I64"],
  [28, "F64"],
  [29, "IQ1_M"],
  [34, "TQ1_0"],
  [35, "TQ2_0"],
  [40, "NVFP4"],
  [41, "Q1_0"],
]);

/** Null for an unsupported type; `refusedTypeName` may have its name. */
export function findGgufTensorType(id: number): GgufTensorType | null {
  return TYPES.get(id) ?? null;
}

/** The name of an unsupported type. Null if GGUF has no such type. */
export function refusedTypeName(id: number): string | null {
  return REFUSED.get(id) ?? null;
}

/** The supported types, as messages list them. */
export function readableTypeNames(): string {
  return [...TYPES.values()].map((type) => type.name).join(", ");
}
