import { describe, expect, test } from "vitest";
import { ggufCheckpoint } from "../../src/checkpoint/gguf-checkpoint.ts";
import { readGgufHeader } from "../../src/checkpoint/gguf-header.ts";
import { type GgufContent, type TensorEntry, writeGguf } from "./gguf-writer.ts";
import { MemoryFile } from "./memory-file.ts";

const small: GgufContent = {
  metadata: { "general.architecture": ["string", "llama"], "x.flag": ["bool", true] },
  tensors: [{ name: "t", type: 0, shape: [2, 3], bytes: new Uint8Array(24).fill(1) }],
};

/** The bytes of `small` with 8 bytes at the first occurrence of `before` + `skip` overwritten. */
function patched(before: string, skip: number, value: bigint): MemoryFile {
  const bytes = writeGguf(small);
  const at = Buffer.from(bytes).indexOf(before) + skip;
  new DataView(bytes.buffer).setBigUint64(at, value, true);
  return new MemoryFile(bytes, "bad.gguf");
}

describe("the head of a GGUF", () => {
  test.each([2, 3])("of version %i is read", (version) => {
    const header = readGgufHeader(new MemoryFile(writeGguf({ ...small, version })));
    expect(header.metadata.getText("general.architecture")).toBe("llama");
    expect(header.metadata.findBoolean("x.flag")).toBe(true);
    expect(header.tensors.get("t")).toMatchObject({ shape: [2, 3], sizeBytes: 24 });
  });

  test.each([1, 0x03000000])("of version %i is refused as unsupported", (version) => {
    const file = new MemoryFile(writeGguf({ ...small, version }));
    expect(() => readGgufHeader(file)).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED_MODEL", param: "version" }),
    );
  });

  test.each([
    ["a tensor count of 2^60", patched("GGUF", 8, 2n ** 60n), "tensor count must be at most"],
    ["a metadata count of 2^60", patched("GGUF", 16, 2n ** 60n), "metadata count must be at most"],
    ["a key of 2^40 bytes", patched("GGUF", 24, 2n ** 40n), "length of metadata key 0"],
    ["an extent of 2^60", patched("t\u0002\0\0\0", 5, 2n ** 60n), "shape of tensor t"],
    ["an extent of 0", patched("t\u0002\0\0\0", 5, 0n), "shape of tensor t"],
    ["an offset beyond the file", patched("t\u0002\0\0\0", 25, 2n ** 50n), "offset of tensor t"],
    ["an offset off the alignment", patched("t\u0002\0\0\0", 25, 4n), "offset of tensor t"],
  ])("with %s is refused before anything is allocated", (_name, file, field) => {
    const act = () => readGgufHeader(file);
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
    expect(act).toThrow("bad.gguf");
    expect(act).toThrow(field);
    expect(file.largestReadBytes).toBeLessThanOrEqual(file.sizeBytes);
  });

  test("cut off anywhere is refused", () => {
    const bytes = writeGguf(small);
    for (let length = 0; length < bytes.length - 8; length++) {
      const file = new MemoryFile(bytes.subarray(0, length));
      expect(() => readGgufHeader(file), `${length} bytes`).toThrow(
        expect.objectContaining({ code: "CHECKPOINT_INVALID" }),
      );
    }
  });

  test("with two tensors or keys of one name is refused", () => {
    const [tensor] = small.tensors as [TensorEntry];
    const twice = new MemoryFile(writeGguf({ ...small, tensors: [tensor, tensor] }));
    expect(() => readGgufHeader(twice)).toThrow("tensor names must be different");
  });

  test("with tensors that share bytes is refused", () => {
    const big = { name: "a", type: 0, shape: [16], bytes: new Uint8Array(64) };
    const bytes = writeGguf({ ...small, tensors: [big, { ...big, name: "bb" }] });
    const at = Buffer.from(bytes).indexOf("bb") + 2 + 4 + 8 + 4;
    new DataView(bytes.buffer).setBigUint64(at, 32n, true);
    expect(() => readGgufHeader(new MemoryFile(bytes))).toThrow("must not overlap");
  });

  test("with a type that is not read names it", () => {
    const tensors = [{ name: "t", type: 16, shape: [256], bytes: new Uint8Array(66) }];
    const act = () => readGgufHeader(new MemoryFile(writeGguf({ ...small, tensors })));
    expect(act).toThrow("IQ2_XXS");
    expect(act).toThrow(expect.objectContaining({ code: "UNSUPPORTED_MODEL" }));
  });

  test("with rows that are no whole blocks is refused", () => {
    const tensors = [{ name: "t", type: 8, shape: [2, 16], bytes: new Uint8Array(34) }];
    const act = () => readGgufHeader(new MemoryFile(writeGguf({ ...small, tensors })));
    expect(act).toThrow("whole blocks of 32");
  });
});

describe("a GGUF model", () => {
  const model = (metadata: GgufContent["metadata"]) => () =>
    ggufCheckpoint(
      new MemoryFile(writeGguf({ ...small, metadata: { ...small.metadata, ...metadata } })),
    );

  test("of an unknown architecture lists the known ones", () => {
    const act = model({ "general.architecture": ["string", "rwkv6"] });
    expect(act).toThrow("llama, qwen2, qwen3, qwen3moe, gemma2, phi2, phi3, gpt2");
    expect(act).toThrow("rwkv6");
  });

  test("without a needed key names it", () => {
    expect(model({})).toThrow("llama.attention.head_count must be present");
    expect(model({ "llama.attention.head_count": ["f32", 1.5] })).toThrow("must be an integer");
  });

  test("in several files says how to merge them", () => {
    expect(model({ "split.count": ["u32", 2] })).toThrow("llama-gguf-split --merge");
  });
});
