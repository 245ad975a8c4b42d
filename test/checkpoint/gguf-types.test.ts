/** What a hostile file can say of a tensor's type, size and place, for every type. */
import { describe, expect, test } from "vitest";
import { BLOCK_TYPES } from "../../bench/gguf-blocks.mjs";
import { readGgufHeader } from "../../src/checkpoint/gguf-header.ts";
import { findGgufTensorType, refusedTypeName } from "../../src/checkpoint/gguf-tensor-types.ts";
import { ggufWeight } from "../../src/checkpoint/gguf-weights.ts";
import { type TensorEntry, writeGguf } from "./gguf-writer.ts";
import { MemoryFile } from "./memory-file.ts";

const ROWS = 2;
const invalid = expect.objectContaining({ code: "CHECKPOINT_INVALID" });

const PLAIN = {
  f32: { id: 0, elements: 1, bytes: 4 },
  f16: { id: 1, elements: 1, bytes: 2 },
  bf16: { id: 30, elements: 1, bytes: 2 },
};

/** Two rows of two blocks, and a vector behind them. */
function contentOf(type: (typeof BLOCK_TYPES)["q4_0"], columns = 2 * type.elements): Uint8Array {
  const bytes = new Uint8Array((ROWS * columns * type.bytes) / type.elements);
  const tensors: TensorEntry[] = [
    { name: "w", type: type.id, shape: [ROWS, columns], bytes },
    { name: "v", type: 0, shape: [8], bytes: new Uint8Array(32) },
  ];
  return writeGguf({ metadata: { "general.architecture": ["string", "llama"] }, tensors });
}

/** Where a tensor's description has its offset: behind name, rank, extents and type. */
function offsetPlace(file: Uint8Array, name: string, rank: number): number {
  const description = Buffer.from(file).lastIndexOf(`${name}${String.fromCharCode(rank)}\0\0\0`);
  return description + 1 + 4 + 8 * rank + 4;
}

function withOffset(file: Uint8Array, name: string, rank: number, offset: bigint): MemoryFile {
  new DataView(file.buffer).setBigUint64(offsetPlace(file, name, rank), offset, true);
  return new MemoryFile(file);
}

describe.each(Object.entries({ ...PLAIN, ...BLOCK_TYPES }))("a tensor of %s", (_name, type) => {
  test("takes exactly its blocks", () => {
    const tensor = readGgufHeader(new MemoryFile(contentOf(type))).tensors.get("w");
    expect(tensor).toMatchObject({
      shape: [ROWS, 2 * type.elements],
      sizeBytes: 4 * type.bytes,
      type: { blockElements: type.elements, blockBytes: type.bytes },
    });
  });

  test("that ends behind the file is refused, at its last byte", () => {
    const bytes = writeGguf({
      metadata: { "general.architecture": ["string", "llama"] },
      tensors: [
        {
          name: "w",
          type: type.id,
          shape: [ROWS, 2 * type.elements],
          bytes: new Uint8Array(4 * type.bytes),
        },
      ],
    });
    const { startBytes = 0, sizeBytes = 0 } =
      readGgufHeader(new MemoryFile(bytes)).tensors.get("w") ?? {};
    const end = startBytes + sizeBytes;
    readGgufHeader(new MemoryFile(bytes.slice(0, end)));
    const act = () => readGgufHeader(new MemoryFile(bytes.slice(0, end - 1)));
    expect(act).toThrow(invalid);
    expect(act).toThrow("must leave room for");
  });

  test.each([2n ** 40n, 2n ** 63n, 2n ** 64n - 32n])("at offset %i is refused", (offset) => {
    const act = () => readGgufHeader(withOffset(contentOf(type), "w", 2, offset));
    expect(act).toThrow(invalid);
    expect(act).toThrow("offset of tensor w must leave room for");
  });

  test.each([1n, 31n])("at an offset of %i beside the alignment is refused", (offset) => {
    const act = () => readGgufHeader(withOffset(contentOf(type), "w", 2, offset));
    expect(act).toThrow("offset of tensor w must be a multiple of the alignment");
  });

  test("under another tensor is refused", () => {
    const act = () => readGgufHeader(withOffset(contentOf(type), "v", 1, 0n));
    expect(act).toThrow("must not overlap another tensor");
  });

  test.each([2n ** 60n, 2n ** 32n, 0n])("with %i rows is refused", (rows) => {
    const file = contentOf(type);
    const extents = offsetPlace(file, "w", 2) - 4 - 16;
    // The outermost extent comes last.
    new DataView(file.buffer).setBigUint64(extents + 8, rows, true);
    expect(() => readGgufHeader(new MemoryFile(file))).toThrow(invalid);
  });

  test("of zeros is read as zeros", () => {
    const file = new MemoryFile(contentOf(type));
    const tensor = readGgufHeader(file).tensors.get("w");
    if (tensor === undefined) throw new Error("no tensor");
    const weight = ggufWeight(file, tensor, { name: "w", layout: { kind: "plain" } });
    expect(weight.bytes().every((byte) => byte === 0 || byte === 0x80)).toBe(true);
  });
});

test.each(Object.entries(BLOCK_TYPES))("rows of parts of %s blocks are refused", (_name, type) => {
  for (const columns of [1, type.elements - 1, type.elements + 1, 1.5 * type.elements]) {
    const shape = [ROWS, columns];
    const tensors = [{ name: "w", type: type.id, shape, bytes: new Uint8Array(8192) }];
    const file = writeGguf({ metadata: {}, tensors });
    const act = () => readGgufHeader(new MemoryFile(file));
    expect(act).toThrow(invalid);
    expect(act).toThrow(`must have rows of whole blocks of ${type.elements}`);
  }
});

test("every number of a type is read, refused by its name, or unknown", () => {
  const named: string[] = [];
  for (let id = 0; id < 64; id++) {
    const tensors = [{ name: "w", type: id, shape: [256], bytes: new Uint8Array(2048) }];
    const act = () => readGgufHeader(new MemoryFile(writeGguf({ metadata: {}, tensors })));
    if (findGgufTensorType(id) !== null) {
      act();
      continue;
    }
    const name = refusedTypeName(id);
    if (name === null) expect(act).toThrow(`must be a known type, current value is ${id}`);
    else {
      named.push(name);
      expect(act).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
      expect(act).toThrow(`current value is ${name}; use a file quantised to one of these`);
    }
  }
  expect(named).toContain("IQ3_S");
});
