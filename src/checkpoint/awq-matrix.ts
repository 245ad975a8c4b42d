/**
 * AWQ's layout "gemm", as AutoAWQ writes it: `qweight` [C, R / 8] and `qzeros` [G, R / 8] hold
 * eight rows (outputs) in a word of 32 bits, in an order that suits its kernel. Source: J. Lin et
 * al., AWQ, 2023.
 */

import { type Packing, transpose, unpackColumns } from "./quantized-matrix.ts";
import {
  groupCountOf,
  groupsInOrder,
  type QuantizedModule,
  type StoredMatrix,
  scalesOf,
} from "./quantized-module.ts";
import type { AwqQuantization } from "./weight-quantization.ts";

/** A word's nibbles hold rows 0, 2, 4, 6, 1, 3, 5, 7: row k lies in nibble `order[k]`. */
const PACKING: Packing = { bits: 4, order: [0, 4, 1, 5, 2, 6, 3, 7] };
const PER_WORD = 8;

/** Finds and checks the parts of a module. Throws CHECKPOINT_INVALID. */
export function awqMatrix(module: QuantizedModule, scheme: AwqQuantization): StoredMatrix {
  const weight = module.integers("qweight", 4);
  const [columns, words] = module.extents("qweight", weight.shape);
  const rows = words * PER_WORD;
  const groupCount = groupCountOf(columns, scheme.groupColumns);
  const scales = module.floats("scales", [groupCount, rows]);
  const zeros = module.integers("qzeros", 4);
  module.check("qzeros", zeros.shape, [groupCount, words]);
  const turned = { rows: columns, columns: rows };
  const byGroup = { rows: groupCount, columns: rows };
  const quanta = () => {
    const unpacked = unpackColumns(weight.values(), turned, PACKING);
    return transpose(new Uint8Array(rows * columns), unpacked, turned);
  };
  const scaling = () => {
    const stored = unpackColumns(zeros.values(), byGroup, PACKING);
    return {
      scales: transpose(new Float32Array(groupCount * rows), scalesOf(scales), byGroup),
      zeros: transpose(new Uint8Array(groupCount * rows), stored, byGroup),
      groups: groupsInOrder(columns, scheme.groupColumns),
    };
  };
  return { rows, columns, quanta, scaling };
}
