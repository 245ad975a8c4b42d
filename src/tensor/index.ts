/**
 * tensor: element types, shapes, floats and rows of them. Plain data; memory belongs to devices.
 *
 *   dtype.ts        element types and their sizes
 *   shape.ts        extents
 *   float-bits.ts   f32 to and from f16 and bf16
 *   decode.ts       floats of a file as f32
 *   finite.ts       finds infinite numbers and NaN
 *   vector.ts       arithmetic on rows
 *   block-types.ts  quantised blocks of files: names and sizes
 *
 * @module
 */
export { BLOCK_TYPES, type BlockType, blocksBytes } from "./block-types.ts";
export { decodeFloats } from "./decode.ts";
export { bytesOf, type DType } from "./dtype.ts";
export { findNonFinite } from "./finite.ts";
export {
  bf16FromF32,
  bitsOf,
  f16FromF32,
  f32FromBf16,
  f32FromF16,
  floatsOf,
  narrow,
  widen,
} from "./float-bits.ts";
export { elementCount, formatShape, type Shape, sameShape } from "./shape.ts";
export {
  absMaxOf,
  addScaled,
  argmax,
  at,
  dot,
  dotFrom,
  dotInt8From,
  maxOf,
  scaleRow,
  softmax,
} from "./vector.ts";
