import type { Shape } from "#tensor";
import { bytesOf, elementCount } from "#tensor";
import type { NamedWeight, WeightDType } from "./named-weight.ts";

/** A file of known size that is read by ranges: mapped, or through positioned reads. */
export interface FileBytes {
  /** For messages. */
  readonly path: string;
  readonly sizeBytes: number;
  /**
   * Bytes `start` up to `end`, read-only; valid until `close()`. The caller has checked that the
   * range lies in the file. `byteOffset` is congruent to `start` modulo 64.
   */
  read(start: number, end: number): Uint8Array;
  /** Releases the range's pages to the system; a later read loads them again. */
  discard(start: number, end: number): void;
  /** Views from `read` are invalid afterwards. */
  close(): void;
}

/** The place of a weight's elements in a file. */
export interface WeightRange {
  readonly name: string;
  readonly dtype: WeightDType;
  readonly shape: Shape;
  /** First byte of the elements, from the start of the file. */
  readonly startBytes: number;
}

/** A weight whose elements are used as stored: nothing is copied. */
export function storedWeight(file: FileBytes, range: WeightRange): NamedWeight {
  const { name, dtype, shape, startBytes } = range;
  const endBytes = startBytes + elementCount(shape) * bytesOf(dtype);
  return {
    name,
    dtype,
    shape,
    file: { path: file.path, start: startBytes },
    bytes: () => aligned(file.read(startBytes, endBytes), bytesOf(dtype)),
    discard: () => file.discard(startBytes, endBytes),
  };
}

/** Copies only elements at an unaligned offset, which no common writer produces. */
function aligned(bytes: Uint8Array, elementBytes: number): Uint8Array {
  return bytes.byteOffset % elementBytes === 0 ? bytes : bytes.slice();
}
