/**
 * AWQ's layout "gemm", as AutoAWQ writes it: `qweight` [C, R / 8] and `qzeros` [G, R / 8] hold
 * eight rows (outputs) in a word of 32 bits, in an order that suits its kernel. Source: J. Lin et
 * al., AWQ, 2023.
 */
import { unpackRows } from "./quantized-matrix.ts";
import {
  groupCountOf,
  groupsInOrder,
  type QuantizedModule,
  type StoredMatrix,
  scalesTurned,
  wordsTurned,
} from "./quantized-module.ts";
import type { AwqQuantization } from "./weight-quantization.ts";

/** A word's nibbles hold rows 0, 2, 4, 6, 1, 3, 5, 7: row k lies in nibble `ORDER[k]`. */
const ORDER: readonly number[] = [0, 4, 1, 5, 2, 6, 3, 7];

/** Finds and checks the parts of a module. Throws CHECKPOINT_INVALID. */
export function awqMatrix(module: QuantizedModule, scheme: AwqQuantization): StoredMatrix {
  const { bits, groupColumns } = scheme;
  const weight = module.integers("qweight", 4);
  const [columns, words] = module.extents("qweight", weight.shape);
  const rows = words * ORDER.length;
  const groupCount = groupCountOf(columns, groupColumns);
  const scales = module.floats("scales", [groupCount, rows]);
  const zeros = module.integers("qzeros", 4);
  module.check("qzeros", zeros.shape, [groupCount, words]);
  return {
    ...{ rows, columns },
    quanta: () => unpackRows(wordsTurned(weight), { rows, columns }, bits, ORDER),
    scaling: () => ({
      scales: scalesTurned(scales),
      zeros: unpackRows(wordsTurned(zeros), { rows, columns: groupCount }, bits, ORDER),
      groups: groupsInOrder(columns, groupColumns),
    }),
  };
}
