/**
 * GPTQ's layout, as AutoGPTQ and GPTQModel write it: `qweight` holds columns (inputs) in words of
 * 32 bits, [C / n, R], each word consecutive columns of one row; `qzeros` [G, R / n] those of rows.
 * Source: E. Frantar et al., GPTQ, 2022, and the format's two versions, which differ in zeros.
 */
import { unpackColumns, unpackRows } from "./quantized-matrix.ts";
import {
  groupCountOf,
  groupsInOrder,
  groupsStored,
  type QuantizedModule,
  type StoredMatrix,
  scalesTurned,
  wordsTurned,
} from "./quantized-module.ts";
import type { GptqQuantization } from "./weight-quantization.ts";

/** Finds and checks the parts of a module. Throws CHECKPOINT_INVALID. */
export function gptqMatrix(module: QuantizedModule, scheme: GptqQuantization): StoredMatrix {
  const { bits, groupColumns, zerosLessOne } = scheme;
  const perWord = 32 / bits;
  const weight = module.integers("qweight", 4);
  const [words, rows] = module.extents("qweight", weight.shape);
  if (rows % perWord !== 0) {
    throw module.fault("qweight", `must have a multiple of ${perWord} outputs`, rows);
  }
  const columns = words * perWord;
  const groupCount = groupCountOf(columns, groupColumns);
  const scales = module.floats("scales", [groupCount, rows]);
  const zeros = module.integers("qzeros", 4);
  module.check("qzeros", zeros.shape, [groupCount, rows / perWord]);
  const index = module.findIntegers("g_idx", 4);
  if (index !== null) module.check("g_idx", index.shape, [columns]);
  return {
    ...{ rows, columns },
    quanta: () => unpackColumns(wordsTurned(weight), { rows, columns }, bits),
    scaling() {
      const zeroWords = wordsTurned(zeros);
      if (zerosLessOne) addOnes(zeroWords, bits);
      return {
        scales: scalesTurned(scales),
        zeros: unpackRows(zeroWords, { rows, columns: groupCount }, bits),
        groups:
          index === null
            ? groupsInOrder(columns, groupColumns)
            : groupsStored(module, "g_idx", index, groupCount),
      };
    },
  };
}

/**
 * The first version stores zeros less one, subtracted from whole words: a zero of 0 borrows from
 * its neighbour, so that the addition must carry, too.
 */
function addOnes(words: Int32Array, bits: 4 | 8): void {
  const ones = bits === 4 ? 0x11111111 : 0x01010101;
  for (const [at, word] of words.entries()) words[at] = word + ones;
}
