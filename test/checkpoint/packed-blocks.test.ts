import { expect, test } from "vitest";
import { philox, seedFrom } from "#base";
import type { NamedWeight } from "#checkpoint";
import { elementCount } from "#tensor";
import { BLOCK_TYPES } from "../../bench/gguf-blocks.mjs";
import type { GgufTensor } from "../../src/checkpoint/gguf-header.ts";
import { type GgufLayout, ggufExperts, ggufWeight } from "../../src/checkpoint/gguf-weights.ts";
import { MemoryFile } from "./memory-file.ts";
import { bitsOf, typeOf } from "./recorded-blocks.ts";

const IDS = Object.entries(BLOCK_TYPES).map(([name, { id }]) => [name, id] as const);
const HEADS = 2;
/** Rows of two blocks of the largest types, of four rows a head. */
const ROWS = 8;
const COLUMNS = 512;
/** Where the blocks begin: blocks of an odd size make most of them lie at odd places anyway. */
const START = 3;

/** A tensor of random bits, so that rows, blocks and elements differ. */
function randomTensor(id: number, shape: readonly number[]): [MemoryFile, GgufTensor] {
  const type = typeOf(id);
  const sizeBytes = (elementCount(shape) / type.blockElements) * type.blockBytes;
  const bytes = new Uint8Array(START + sizeBytes);
  for (let at = 0; at < bytes.length; at++) {
    bytes[at] = philox([at, id, 0, 0], seedFrom(3))[0] & 255;
  }
  return [new MemoryFile(bytes), { name: "t", type, shape, startBytes: START, sizeBytes }];
}

/** The weight's blocks, dequantised as a device would that has only these. */
function fromBlocks({ packed }: NamedWeight, id: number): Uint32Array | null {
  if (packed === undefined) return null;
  const type = typeOf(id);
  expect(packed).toMatchObject({
    ...{ type: type.name, blockElements: type.blockElements, blockBytes: type.blockBytes },
  });
  const blocks = packed.blocks();
  const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.length);
  const count = blocks.length / type.blockBytes;
  const values = new Float32Array(count * type.blockElements);
  for (let block = 0; block < count; block++) {
    type.blocks?.dequantize(view, block * type.blockBytes, values, block * type.blockElements);
  }
  return bitsOf(new Uint8Array(values.buffer));
}

function weightOf(id: number, shape: readonly number[], layout: GgufLayout): NamedWeight {
  return ggufWeight(...randomTensor(id, shape), { name: "w", layout });
}

test.each(IDS)(
  "blocks of %s dequantise to the weight, as stored and without a copy",
  (_name, id) => {
    const [file, tensor] = randomTensor(id, [ROWS, COLUMNS]);
    const weight = ggufWeight(file, tensor, { name: "w", layout: { kind: "plain" } });
    expect(fromBlocks(weight, id)).toEqual(bitsOf(weight.bytes()));
    const blocks = weight.packed?.blocks();
    expect(blocks?.byteOffset).toBe(START);
    expect(blocks?.buffer).toBe(file.read(0, 1).buffer);
  },
);

test.each(IDS)("blocks of %s follow rows that rope interleaved", (_name, id) => {
  const weight = weightOf(id, [ROWS, COLUMNS], { kind: "interleaved", heads: HEADS });
  const plain = weightOf(id, [ROWS, COLUMNS], { kind: "plain" });
  expect(fromBlocks(weight, id)).toEqual(bitsOf(weight.bytes()));
  expect(bitsOf(weight.bytes())).not.toEqual(bitsOf(plain.bytes()));
});

test.each(IDS)("blocks of %s are those of one expert", (_name, id) => {
  const experts = ggufExperts(...randomTensor(id, [3, 4, COLUMNS]));
  const every = experts.map((weight) => {
    expect(fromBlocks(weight, id)).toEqual(bitsOf(weight.bytes()));
    return [...weight.bytes()];
  });
  expect(every[1]).not.toEqual(every[0]);
});

test.each(IDS)("%s has no blocks where elements are moved or changed", (_name, id) => {
  expect(weightOf(id, [ROWS, COLUMNS], { kind: "transposed" }).packed).toBeUndefined();
  expect(weightOf(id, [COLUMNS], { kind: "plus-one" }).packed).toBeUndefined();
  const vector = weightOf(id, [COLUMNS], { kind: "interleaved", heads: HEADS });
  expect(vector.packed).toBeUndefined();
});

test.each([0, 1, 30])("floats of type %i have no blocks", (id) => {
  const weight = weightOf(id, [ROWS, COLUMNS], { kind: "interleaved", heads: HEADS });
  expect(weight.packed).toBeUndefined();
  expect(weightOf(id, [ROWS, COLUMNS], { kind: "plain" }).packed).toBeUndefined();
});

test.each([0, 1, 30])("reordered floats of type %i name no place in the file", (id) => {
  const shape = [ROWS, COLUMNS];
  expect(weightOf(id, shape, { kind: "plain" }).file).toMatchObject({ start: START });
  expect(weightOf(id, shape, { kind: "interleaved", heads: HEADS }).file).toBeUndefined();
  expect(weightOf(id, shape, { kind: "transposed" }).file).toBeUndefined();
  expect(weightOf(id, [COLUMNS], { kind: "plus-one" }).file).toBeUndefined();
});
