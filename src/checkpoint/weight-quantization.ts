/** The ways of quantising a checkpoint's matrices that are read, besides GGUF's. */

/** AWQ's "gemm": 4 bits with zeros. */
export interface AwqQuantization {
  readonly method: "awq";
  readonly bits: 4;
  /** Columns that share a scale. Null: all of a row. */
  readonly groupColumns: number | null;
}

/** GPTQ, with any order of columns. */
export interface GptqQuantization {
  readonly method: "gptq";
  readonly bits: 4 | 8;
  readonly groupColumns: number | null;
  /** The format's first version: zeros are stored less one. */
  readonly zerosLessOne: boolean;
}

/** compressed-tensors with integers. */
export interface CompressedQuantization {
  readonly method: "compressed-tensors";
  /** Words of 32 bits ("pack-quantized"), or bytes ("int-quantized"). */
  readonly layout: "packed" | "bytes";
  readonly bits: 4 | 8;
  /** What has a scale: a group of a row's columns, a row, or the whole matrix. */
  readonly scales: "group" | "row" | "matrix";
  /** Null unless groups have scales. */
  readonly groupColumns: number | null;
  /** Whether zeros are all half the range, and not stored. */
  readonly symmetric: boolean;
}

/** One of them, for all quantised matrices of a checkpoint. */
export type WeightQuantization = AwqQuantization | GptqQuantization | CompressedQuantization;
