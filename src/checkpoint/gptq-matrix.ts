/**
 * GPTQ's layout, as AutoGPTQ and GPTQModel write it: `qweight` holds columns (inputs) in words of
 * 32 bits, each word consecutive columns of one row; `qzeros` [G, R / n] consecutive rows.
 * Source: E. Frantar et al., GPTQ, 2022, and the format's two versions, which differ in zeros.
 */

import { inOrder, transpose, unpackColumns, unpackRows } from "./quantized-matrix.ts";
import {
  groupCountOf,
  groupsInOrder,
  groupsStored,
  type QuantizedModule,
  type StoredMatrix,
  scalesOf,
} from "./quantized-module.ts";
import type { GptqQuantization } from "./weight-quantization.ts";

/** Finds and checks the parts of a module. Throws CHECKPOINT_INVALID. */
export function gptqMatrix(module: QuantizedModule, scheme: GptqQuantization): StoredMatrix {
  const packing = inOrder(scheme.bits);
  const perWord = packing.order.length;
  const weight = module.integers("qweight", 4);
  const [words, rows] = module.extents("qweight", weight.shape);
  if (rows % perWord !== 0) {
    throw module.fault("qweight", `must have a multiple of ${perWord} outputs`, rows);
  }
  const columns = words * perWord;
  const groupCount = groupCountOf(columns, scheme.groupColumns);
  const scales = module.floats("scales", [groupCount, rows]);
  const zeros = module.integers("qzeros", 4);
  module.check("qzeros", zeros.shape, [groupCount, rows / perWord]);
  const index = module.findIntegers("g_idx", 4);
  if (index !== null) module.check("g_idx", index.shape, [columns]);
  const turned = { rows: columns, columns: rows };
  const byGroup = { rows: groupCount, columns: rows };
  const quanta = () => {
    const unpacked = unpackRows(weight.values(), turned, packing);
    return transpose(new Uint8Array(rows * columns), unpacked, turned);
  };
  const scaling = () => {
    const zeroWords = zeros.values();
    if (scheme.zerosLessOne) addOnes(zeroWords, scheme.bits);
    const stored = unpackColumns(zeroWords, byGroup, packing);
    return {
      scales: transpose(new Float32Array(groupCount * rows), scalesOf(scales), byGroup),
      zeros: transpose(new Uint8Array(groupCount * rows), stored, byGroup),
      groups:
        index === null
          ? groupsInOrder(columns, scheme.groupColumns)
          : groupsStored(module, "g_idx", index, groupCount),
    };
  };
  return { rows, columns, quanta, scaling };
}

/**
 * The first version stores zeros less one, subtracted from whole words: a zero of 0 borrows from
 * its neighbour, so that the addition must carry, too.
 */
function addOnes(words: Int32Array, bits: 4 | 8): void {
  const ones = bits === 4 ? 0x11111111 : 0x01010101;
  for (const [at, word] of words.entries()) words[at] = word + ones;
}
