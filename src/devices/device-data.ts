/** Device data as handles: only the device that made a handle can read the memory behind it. */
import type { DType, Shape } from "#tensor";

/**
 * Storage format of weight matrices, and the format that the rows they multiply are rounded to.
 * `q8` are rows of 8 bits in groups of 32 columns; its matrices have whatever blocks of 2 to 8 bits
 * their file has (`WeightSource.packed`), or Q8_0 made of its floats.
 */
export type WeightFormat = "f32" | "bf16" | "i8" | "q8";

/**
 * Storage format of keys and values. `i8` and `fp8` (e4m3fn: 448 is the largest number) are 8 bits
 * with a scale for each token's key and value vector of every kv head, or with one calibrated scale
 * per layer; `reference/kv-rounding.ts` has the definition.
 */
export type KvFormat = "f32" | "f16" | "bf16" | "i8" | "fp8";

/** Row-major memory on a device. A handle: only its own device can read or write the memory. */
export interface DeviceTensor {
  readonly dtype: DType;
  readonly shape: Shape;
}

/**
 * Rows [rows, columns] ready to be multiplied by a `WeightMatrix` of the same format: `f32`
 * unchanged, `bf16` rounded, `i8` and `q8` rounded with scales beside them. Ops that feed a
 * `linear` write these directly (norm + quantise is one op, not two). An `f32` activation can be
 * read back like any tensor.
 */
export interface Activation {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
}

/** A matrix [N, K] in its device's packed layout: y[n] = sum over k of x[k] * w[n, k]. */
export interface WeightMatrix {
  readonly format: WeightFormat;
  /** N, outputs. */
  readonly rows: number;
  /** K, inputs. */
  readonly columns: number;
  readonly bytes: number;
}

/**
 * Keys and values of every layer, in blocks. The token at `position` of a sequence is in slot
 * `table[position / P] * P + position % P`. Contents of a block are undefined until written.
 */
export interface KvPool {
  readonly format: KvFormat;
  readonly layers: number;
  readonly blocks: number;
  readonly blockTokens: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Keys and values of one block over all layers, with their scales. Contiguous. */
  readonly bytesPerBlock: number;
  /**
   * Identifies the byte layout of a block: caches with equal layouts can exchange blocks, through
   * host memory or through files. The content of the model is not part of it.
   */
  readonly layout: string;
}

/** Which layer of a cache an op reads or writes. */
export interface KvLayerIndex {
  /** Index among the layers of a block. */
  readonly layer: number;
  /** Index of its calibrated scales; `layer` by default. */
  readonly scaleLayer?: number;
}
