import type { Shape } from "#tensor";

/** Element types in which weights leave this folder; whatever else a file holds is converted. */
export type WeightDType = "f32" | "f16" | "bf16";

/** Where elements lie in a file, as they are. */
export interface FilePlace {
  readonly path: string;
  /** First byte of the elements. */
  readonly start: number;
}

/** One weight of a checkpoint. Cheap until `bytes()` is called. */
export interface NamedWeight {
  /** As Hugging Face's transformers names it, whatever the file's own naming. */
  readonly name: string;
  readonly dtype: WeightDType;
  /** The file's own name of how it stores the elements, e.g. Q4_1; absent: as they leave. */
  readonly storedAs?: string;
  /** Extents, outermost first. Elements are stored densely, last extent fastest. */
  readonly shape: Shape;
  /** Where `bytes` can be read without this process's help; absent where they are made. */
  readonly file?: FilePlace;
  /**
   * Little-endian elements; `byteOffset` is a multiple of the element size.
   *
   * Read-only and, where the file's own elements can be used as they are, a view of the mapped
   * file: valid until the checkpoint is closed and not a moment longer. Otherwise (dequantised or
   * reordered) a new buffer on each call, which belongs to the caller.
   */
  bytes(): Uint8Array;
  /** Tells the system that the file's pages will not be read again soon. */
  discard(): void;
}
