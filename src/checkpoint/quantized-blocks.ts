/**
 * Quantised matrices of safetensors as blocks of GGUF's, where these mean exactly the same: zeros
 * amid the range, scales that half precision holds, and groups of whole blocks.
 */
import { f16FromF32, f32FromF16 } from "#tensor";
import type { PackedBlocks } from "./named-weight.ts";
import { runsOf, type Scaling } from "./quantized-matrix.ts";
import type { StoredMatrix } from "./quantized-module.ts";

/** Elements of a block of both types. */
const BLOCK = 32;
const HALF = BLOCK / 2;

/** A type of blocks that holds quanta whose zero is `zero`, after a scale of two bytes. */
interface ZeroedBlocks {
  readonly name: "Q4_0" | "Q8_0";
  readonly bytes: number;
  readonly write: (out: Uint8Array, to: number, quanta: Uint8Array) => void;
}

const TYPES: ReadonlyMap<number, ZeroedBlocks> = new Map([
  [8, { name: "Q4_0", bytes: 18, write: writeNibbles }],
  [128, { name: "Q8_0", bytes: 34, write: writeBytes }],
]);

/** Reads scales and zeros. Undefined: no type of blocks means the same. */
export function exactBlocks(matrix: StoredMatrix): PackedBlocks | undefined {
  const scaling = matrix.scaling();
  const type = TYPES.get(scaling.zeros[0] ?? 0);
  if (type === undefined || !isExact(scaling)) return undefined;
  return {
    type: type.name,
    blockElements: BLOCK,
    blockBytes: type.bytes,
    // Read again: scales of all matrices would stay in memory with the checkpoint.
    blocks: () => blocksOf(type, matrix, matrix.scaling()),
  };
}

function isExact({ scales, zeros, groups }: Scaling): boolean {
  const [zero] = zeros;
  return (
    zeros.every((other) => other === zero) &&
    scales.every((scale) => f32FromF16(f16FromF32(scale)) === scale) &&
    runsOf(groups).every(({ first, end }) => first % BLOCK === 0 && end % BLOCK === 0)
  );
}

function blocksOf(type: ZeroedBlocks, matrix: StoredMatrix, scaling: Scaling): Uint8Array {
  const { rows, columns } = matrix;
  const quanta = matrix.quanta();
  const groupCount = scaling.scales.length / rows;
  const out = new Uint8Array((quanta.length / BLOCK) * type.bytes);
  const view = new DataView(out.buffer);
  for (let at = 0, to = 0; at < quanta.length; at += BLOCK, to += type.bytes) {
    const row = Math.floor(at / columns);
    const group = scaling.groups[at % columns] ?? 0;
    const scale = scaling.scales[row * groupCount + group] ?? 0;
    view.setUint16(to, f16FromF32(scale), true);
    type.write(out, to + 2, quanta.subarray(at, at + BLOCK));
  }
  return out;
}

/** Element j in the low nibble of byte j, element j + 16 in the high one; their zero is 8. */
function writeNibbles(out: Uint8Array, to: number, quanta: Uint8Array): void {
  for (let j = 0; j < HALF; j++) {
    out[to + j] = (quanta[j] ?? 0) | ((quanta[j + HALF] ?? 0) << 4);
  }
}

/** Signed bytes: 128 less. */
function writeBytes(out: Uint8Array, to: number, quanta: Uint8Array): void {
  for (let j = 0; j < BLOCK; j++) out[to + j] = (quanta[j] ?? 0) - 128;
}
