/** Blocks of GGUF's quantised types and their values, as the `gguf` Python package has them. */
import { inflateRawSync } from "node:zlib";
import { findGgufTensorType, type GgufTensorType } from "../../src/checkpoint/gguf-tensor-types.ts";
import { ggufWeight } from "../../src/checkpoint/gguf-weights.ts";
import { MemoryFile } from "./memory-file.ts";

/** One type of a recording of training/recordings/gguf_types.py. */
export interface RecordedType {
  readonly id: number;
  readonly blocks: string;
  readonly values: string;
}

const NAN_BITS = 0x7fc00000;

/** What is read of the recorded blocks, and what the package reads: bits of f32, NaNs alike. */
export function readAndRecorded(recorded: RecordedType): {
  readonly read: Uint32Array;
  readonly recorded: Uint32Array;
} {
  const type = typeOf(recorded.id);
  const blocks = inflated(recorded.blocks);
  const shape = [(blocks.length / type.blockBytes) * type.blockElements];
  const tensor = { name: "t", type, shape, startBytes: 0, sizeBytes: blocks.length };
  const as = { name: "w", layout: { kind: "plain" } } as const;
  const weight = ggufWeight(new MemoryFile(blocks), tensor, as);
  return { read: bitsOf(weight.bytes()), recorded: bitsOf(inflated(recorded.values)) };
}

/** The type of this number, which must be readable. */
export function typeOf(id: number): GgufTensorType {
  const type = findGgufTensorType(id);
  if (type === null) throw new Error(`type ${id} is not read`);
  return type;
}

/** Bits of little-endian f32; each NaN has the same. */
export function bitsOf(bytes: Uint8Array): Uint32Array {
  const { buffer } = bytes.slice();
  const values = new Float32Array(buffer);
  return new Uint32Array(buffer).map((bits, at) => (Number.isNaN(values[at]) ? NAN_BITS : bits));
}

function inflated(text: string): Uint8Array {
  return Uint8Array.from(inflateRawSync(Buffer.from(text, "base64")));
}
