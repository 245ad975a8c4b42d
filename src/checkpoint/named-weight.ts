import type { BlockType, Shape } from "#tensor";

/** Element types of weights after reading; other types of a file are converted. */
export type WeightDType = "f32" | "f16" | "bf16";

/** Place of unconverted elements in a file. */
export interface FilePlace {
  readonly path: string;
  /** First byte of the elements. */
  readonly start: number;
}

/** A matrix as quantised blocks, row behind row in transformers' order. */
export interface PackedWeight {
  readonly type: BlockType;
  /** Read-only, as `NamedWeight.bytes`. */
  blocks(): Uint8Array;
}

/** One weight of a checkpoint. Cheap until `bytes()` is called. */
export interface NamedWeight {
  /** The name in Hugging Face's transformers, whatever the file's own naming. */
  readonly name: string;
  readonly dtype: WeightDType;
  /** The file's own name of its element format, e.g. Q4_1; absent: the format after reading. */
  readonly storedAs?: string;
  /** Extents, outermost first. Elements are stored densely, last extent fastest. */
  readonly shape: Shape;
  /** File that holds `bytes`, for other readers; absent where they are converted. */
  readonly file?: FilePlace;
  /** The quantised blocks that `bytes` dequantises; absent where a file has none. */
  readonly packed?: PackedWeight;
  /**
   * Little-endian elements; `byteOffset` is a multiple of the element size.
   *
   * Read-only and, where the file's own elements can be used unchanged, a view of the mapped file:
   * valid only until the checkpoint is closed. Otherwise (dequantised or reordered) a new buffer on
   * each call, which belongs to the caller.
   */
  bytes(): Uint8Array;
  /** Advises the system that the file's pages will not be read again soon. */
  discard(): void;
}

/** One tensor of integers of a checkpoint: a table, never a weight. */
export interface NamedIntegers {
  readonly name: string;
  readonly shape: Shape;
  /** The elements; the copy belongs to the caller. Throws CHECKPOINT_INVALID beyond 32 bits. */
  values(): Int32Array;
}
