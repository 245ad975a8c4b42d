/** Random quantised blocks whose weights are about 0.02 large, and edge ones. */
import type { PackedBlocks, WeightSource } from "#devices";
import { BLOCK_TYPES, type BlockType, f16FromF32 } from "#tensor";
import { decodeBlocks } from "../../src/devices/reference/blocks.ts";

type Size = (typeof BLOCK_TYPES)[number];

/** Bytes of the f16 scales and minima in a block, and what they are multiplied by. */
const HALVES: Readonly<Record<BlockType, { scale: number; min?: number; weight: number }>> = {
  Q4_0: { scale: 0, weight: 4 },
  Q4_1: { scale: 0, min: 2, weight: 8 },
  Q5_0: { scale: 0, weight: 8 },
  Q5_1: { scale: 0, min: 2, weight: 16 },
  Q8_0: { scale: 0, weight: 64 },
  Q2_K: { scale: 80, min: 82, weight: 12 },
  Q3_K: { scale: 108, weight: 32 },
  Q4_K: { scale: 0, min: 2, weight: 256 },
  Q5_K: { scale: 0, min: 2, weight: 512 },
  Q6_K: { scale: 208, weight: 1024 },
  IQ4_NL: { scale: 0, weight: 64 },
  IQ4_XS: { scale: 0, weight: 1024 },
  MXFP4: { scale: 0, weight: 4 },
};

/** Numbers in [0, 2^32), the same for a seed: a linear congruential generator. */
export function randomWords(seed: number): () => number {
  let state = (seed * 2654435761 + 1) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state ^ (state >>> 15)) >>> 0;
  };
}

/** Random bits with scales that make weights of about 0.02. */
export function randomBlocks(type: BlockType, rows: number, columns: number, seed: number) {
  const size = sizeOf(type);
  const blocks = new Uint8Array((rows * columns * size.bytes) / size.columns);
  const next = randomWords(seed);
  for (let i = 0; i < blocks.length; i++) blocks[i] = next() >>> 13;
  const view = new DataView(blocks.buffer);
  const { scale, min, weight } = HALVES[type];
  for (let at = 0; at < blocks.length; at += size.bytes) {
    const unit = (0.02 / weight) * (0.5 + next() / 2 ** 32);
    if (type === "MXFP4") blocks[at] = 118 + (next() % 4);
    else view.setUint16(at + scale, f16FromF32(unit), true);
    if (min === undefined) continue;
    const isSuper = size.columns === 256;
    view.setUint16(at + min, f16FromF32(isSuper ? unit * 4 : -unit * (weight / 2)), true);
  }
  return blocks;
}

/** A matrix that has these blocks, and the floats that they stand for. */
export function blockSource(
  type: BlockType,
  shape: readonly [number, number],
  blocks: Uint8Array,
): WeightSource & { readonly packed: PackedBlocks } {
  const bytes = () => {
    const [rows, columns] = shape;
    const out = new Float32Array(rows * columns);
    const rowBytes = blocks.length / rows;
    for (let row = 0; row < rows; row++) {
      const numbers = new Int8Array(columns);
      const scales = new Float32Array(columns / 16);
      const mins = new Float32Array(columns / 16);
      decodeBlocks(type, blocks, row * rowBytes, { numbers, scales, mins });
      numbers.forEach((number, column) => {
        const index = column >> 4;
        out[row * columns + column] = (scales[index] ?? 0) * number + (mins[index] ?? 0);
      });
    }
    return new Uint8Array(out.buffer);
  };
  return {
    name: `random ${type} ${shape.join("x")}`,
    dtype: "f32",
    shape,
    packed: { type, blocks: () => blocks },
    bytes,
    discard: () => {},
  };
}

/** Elements of a block and its bytes. */
export function sizeOf(type: BlockType): Size {
  const found = BLOCK_TYPES.find(({ name }) => name === type);
  if (found === undefined) throw new Error(`no type ${type}`);
  return found;
}
