import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type TensorToWrite, writeSafetensors } from "#checkpoint";
import { readSafetensors } from "../../src/checkpoint/safetensors.ts";
import { readSafetensorsHeader } from "../../src/checkpoint/safetensors-header.ts";
import { MemoryFile } from "./memory-file.ts";
import { scratchFolder } from "./scratch-folder.ts";

/** A file with the given header text and data. */
function fileOf(header: unknown, dataBytes = 0): MemoryFile {
  const text = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  return new MemoryFile(bytes, "bad.safetensors");
}

const entry = (offsets: unknown, shape: unknown = [2], dtype: unknown = "F32") => ({
  dtype,
  shape,
  data_offsets: offsets,
});

describe("a broken header is refused with the file and the field", () => {
  test.each([
    ["an unknown type", { w: entry([0, 8], [2], "F33") }, 8, "tensor w.dtype"],
    ["a type that is no string", { w: entry([0, 8], [2], 3) }, 8, "tensor w.dtype"],
    ["a negative extent", { w: entry([0, 8], [-2]) }, 8, "tensor w.shape"],
    ["a fractional extent", { w: entry([0, 8], [0.5]) }, 8, "tensor w.shape"],
    ["a size that overflows", { w: entry([0, 8], [2 ** 40, 2 ** 40]) }, 8, "tensor w.shape"],
    ["a zero that hides an overflow", { w: entry([0, 0], [2 ** 52, 2 ** 52, 0]) }, 0, "w.shape"],
    ["offsets beyond the file", { w: entry([0, 80], [20]) }, 8, "tensor w.data_offsets"],
    ["offsets in reverse", { w: entry([8, 0]) }, 8, "tensor w.data_offsets"],
    ["one offset", { w: entry([0]) }, 8, "tensor w.data_offsets"],
    ["offsets that do not fit the shape", { w: entry([0, 4]) }, 8, "must span 8 bytes"],
    ["an overlap", { a: entry([0, 8]), b: entry([4, 12]) }, 12, "an overlap"],
    ["a gap", { a: entry([0, 8]), b: entry([12, 20]) }, 20, "a gap"],
    ["bytes behind the last tensor", { a: entry([0, 8]) }, 9, "file size"],
    ["an entry that is no object", { a: 3 }, 0, "tensor a"],
    ["metadata that is no object of strings", { __metadata__: { a: 1 } }, 0, "__metadata__"],
    ["a name that comes twice", '{"a":{}, "b":{"x":1,"x":2}}', 0, 'two of "x"'],
    ["a name that comes twice by escapes", '{"a":1,"\\u0061":2}', 0, 'two of "a"'],
    ["no JSON", "{]", 0, "valid JSON"],
    ["no object", "[]", 0, "JSON object"],
  ])("%s", (_name, header, dataBytes, field) => {
    const act = () => readSafetensorsHeader(fileOf(header, dataBytes));
    expect(act).toThrow(expect.objectContaining({ code: "CHECKPOINT_INVALID" }));
    expect(act).toThrow("bad.safetensors");
    expect(act).toThrow(field);
  });

  test("a length beyond the file is refused before anything is read", () => {
    const bytes = new Uint8Array(16);
    new DataView(bytes.buffer).setBigUint64(0, 2n ** 60n, true);
    const file = new MemoryFile(bytes);
    expect(() => readSafetensorsHeader(file)).toThrow("header length must be at most 8");
    expect(file.largestReadBytes).toBe(8);
  });

  test("a file that is too short for the length is refused", () => {
    expect(() => readSafetensorsHeader(new MemoryFile(new Uint8Array(7)))).toThrow("header length");
  });

  test("bytes that are no UTF-8 are refused", () => {
    const file = new MemoryFile(Uint8Array.from([1, 0, 0, 0, 0, 0, 0, 0, 0xff]));
    expect(() => readSafetensorsHeader(file)).toThrow("must be UTF-8");
  });
});

test("float types that no device reads are named, integers are no weights", () => {
  const floats = fileOf({ w: entry([0, 2], [2], "F8_E4M3") }, 2);
  expect(() => readSafetensors(floats)).toThrow(
    expect.objectContaining({ code: "UNSUPPORTED_MODEL", param: "tensor w.dtype" }),
  );
  const integers = fileOf({ p: entry([0, 8], [1], "I64"), w: entry([8, 16]) }, 16);
  expect([...readSafetensors(integers).weights.keys()]).toEqual(["w"]);
});

test("integers are read as 32 bits, from any offset; larger ones are refused", () => {
  const header = JSON.stringify({
    long: entry([0, 16], [2], "I64"),
    short: entry([16, 20], [1], "I32"),
    flags: entry([20, 21], [1], "U8"),
  });
  const fileWith = (long: readonly bigint[]): MemoryFile => {
    // A header of odd length puts the data at odd offsets.
    const text = new TextEncoder().encode(header.padEnd(header.length + 1 - (header.length % 2)));
    const bytes = new Uint8Array(8 + text.length + 21);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(0, BigInt(text.length), true);
    bytes.set(text, 8);
    long.forEach((value, at) => {
      view.setBigInt64(8 + text.length + 8 * at, value, true);
    });
    view.setInt32(8 + text.length + 16, 7, true);
    return new MemoryFile(bytes);
  };
  const { integers, weights } = readSafetensors(fileWith([-3n, 2n ** 31n - 1n]));
  expect([...integers.keys()]).toEqual(["long", "short"]);
  expect(weights.size).toBe(0);
  expect([...(integers.get("long")?.values() ?? [])]).toEqual([-3, 2 ** 31 - 1]);
  expect([...(integers.get("short")?.values() ?? [])]).toEqual([7]);
  const large = readSafetensors(fileWith([2n ** 31n, 0n])).integers.get("long");
  expect(() => large?.values()).toThrow(
    expect.objectContaining({ code: "CHECKPOINT_INVALID", param: "tensor long" }),
  );
});

test("weights with elements at odd places come as aligned copies", () => {
  // A header of 61 bytes puts the data at byte 69.
  const header = JSON.stringify({ w: entry([0, 4], [1]) }).padEnd(61);
  const [weight] = readSafetensors(fileOf(header, 4)).weights.values();
  expect(weight?.bytes().byteOffset).toBe(0);
  expect(weight?.bytes()).toHaveLength(4);
});

describe("the writer", () => {
  const tensors: TensorToWrite[] = [
    { name: "b", dtype: "f32", shape: [2, 1], bytes: Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]) },
    { name: "a/ü", dtype: "bf16", shape: [1], bytes: Uint8Array.from([9, 10]) },
    { name: "none", dtype: "f16", shape: [0, 4], bytes: new Uint8Array(0) },
  ];

  test("writes what the reader reads", () => {
    const path = join(scratchFolder(), "out.safetensors");
    writeSafetensors(path, tensors, { made: "by a test" });
    const file = new MemoryFile(new Uint8Array(readFileSync(path)), path);
    expect(readSafetensorsHeader(file).metadata).toEqual({ made: "by a test" });
    const read = readSafetensors(file).weights;
    for (const { name, dtype, shape, bytes } of tensors) {
      expect(read.get(name)).toMatchObject({ name, dtype, shape });
      expect([...(read.get(name)?.bytes() ?? [])]).toEqual([...bytes]);
    }
  });

  test("says which file cannot be written", () => {
    const path = join(scratchFolder(), "absent", "out.safetensors");
    expect(() => writeSafetensors(path, tensors)).toThrow(expect.objectContaining({ code: "IO" }));
  });
});
