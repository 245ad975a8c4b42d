import type { BlockType, Shape } from "#tensor";

/** Element types of weights after reading; other types of a file are converted. */
export type WeightDType = "f32" | "f16" | "bf16";

/** Place of unconverted elements in a file. */
export interface FilePlace {
  readonly path: string;
  /** First byte of the elements. */
  readonly start: number;
}

/** The quantised blocks of a weight, for a device that computes with them as they are. */
export interface PackedBlocks {
  /** GGUF's name of the type, e.g. Q4_K, which defines what a block holds. */
  readonly type: BlockType;
  /** Consecutive elements of a row that a block holds; rows are whole blocks. */
  readonly blockElements: number;
  readonly blockBytes: number;
  /**
   * All blocks, row by row in the order of the weight's shape. Any byte may be the first: blocks
   * are not aligned. Read-only and, where the file has the rows in this order, a view of the mapped
   * file: valid only until the checkpoint is closed. Otherwise a new buffer on each call, which
   * belongs to the caller.
   */
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
  /**
   * Blocks that dequantise to `bytes`, bit by bit; absent or undefined where elements are stored as
   * floats, or where no type of blocks has their order, scales or zeros. May be read on first use,
   * which may throw CHECKPOINT_INVALID.
   */
  readonly packed?: PackedBlocks | undefined;
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

/** One tensor of integers of a checkpoint: a table, or a part of a quantised weight. */
export interface NamedIntegers {
  readonly name: string;
  readonly shape: Shape;
  /** Bytes of an element in the file: two's complement. */
  readonly elementBytes: 1 | 4 | 8;
  /** The elements; the copy belongs to the caller. Throws CHECKPOINT_INVALID beyond 32 bits. */
  values(): Int32Array;
  /** The file's own bytes, at any offset: read-only, and valid until the checkpoint is closed. */
  bytes(): Uint8Array;
  /** Advises the system that the file's pages will not be read again soon. */
  discard(): void;
}
