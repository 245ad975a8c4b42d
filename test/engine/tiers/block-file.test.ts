import fc from "fast-check";
import { expect, test } from "vitest";
import type { BlockFile } from "#kvcache";
import {
  decodeHeader,
  encodeHeader,
  type FileShape,
  HEADER_BYTES_MAX,
  headerBytesOf,
  payloadSum,
  verifyBlock,
} from "../../../src/engine/tiers/block-file.ts";

const shape: FileShape = {
  fingerprint: "0123456789abcdef0123456789abcdef",
  hashRule: "sha256_cbor",
  blockTokens: 4,
  bytesPerBlock: 64,
};

const file: BlockFile = {
  key: "aa".repeat(32),
  parentKey: "bb".repeat(32),
  scope: "salt ü",
  extra: "",
  tokens: Int32Array.of(1, -2, 2 ** 31 - 1, 0),
  priority: 35,
};

const payload = Uint8Array.from({ length: shape.bytesPerBlock }, (_, index) => index * 7);

function headerOf(of: BlockFile, payloadOf = payload): Buffer {
  const header = encodeHeader(of, shape, payloadSum(payloadOf));
  if (header === null) throw new Error("too long");
  return header;
}

function decode(header: Buffer, fileBytes = header.length + shape.bytesPerBlock) {
  return decodeHeader(header, fileBytes, shape);
}

test("a header says what was written into it", () => {
  const header = headerOf(file);
  expect(headerBytesOf(header)).toBe(header.length);
  expect(decode(header)).toEqual({ file, headerBytes: header.length });
  expect(verifyBlock({ header, payload }, file, shape)).toBe(true);
});

test("any tokens, scopes and extra keys survive the way through a header", () => {
  const hex = fc.array(fc.constantFrom(..."0123456789abcdef"), { minLength: 16, maxLength: 64 });
  const key = hex.map((digits) => digits.join(""));
  const any = fc.record({
    key,
    parentKey: fc.option(key),
    scope: fc.string({ unit: "binary" }),
    extra: fc.string(),
    tokens: fc.int32Array({ minLength: 1, maxLength: 4 }),
    priority: fc.integer({ min: 0, max: 100 }),
  });
  fc.assert(
    fc.property(any, (of) => {
      expect(decode(headerOf(of))).toEqual({ file: of, headerBytes: headerOf(of).length });
    }),
    { numRuns: 30 },
  );
});

test("one changed bit anywhere in a header is noticed, by the scan and by the read", () => {
  const header = headerOf(file);
  for (let index = 0; index < header.length; index++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = Buffer.from(header);
      changed.writeUInt8(changed.readUInt8(index) ^ (1 << bit), index);
      expect(typeof decode(changed), `byte ${index}, bit ${bit}`).toBe("string");
      expect(verifyBlock({ header: changed, payload }, file, shape)).not.toBe(true);
    }
  }
});

test("one changed byte anywhere in the payload is noticed", () => {
  const header = headerOf(file);
  for (let index = 0; index < payload.length; index++) {
    const changed = payload.slice();
    changed[index] = (changed[index] ?? 0) ^ 1;
    const verdict = verifyBlock({ header, payload: changed }, file, shape);
    expect(verdict).toBe("its contents fail the checksum");
  }
});

test("a header cut anywhere is none", () => {
  const header = headerOf(file);
  for (let length = 0; length < header.length; length++) {
    expect(typeof decode(header.subarray(0, length))).toBe("string");
  }
});

/** A header with other fields but right sums: what a liar, not an accident, makes. */
function forged(change: (header: Buffer) => void, other: Partial<BlockFile> = {}): Buffer {
  const header = headerOf({ ...file, ...other });
  change(header);
  header.writeUInt32LE(payloadSum(header.subarray(0, header.length - 4)), header.length - 4);
  return header;
}

test.for([
  ["version", 8, 2],
  ["header length", 12, 2 ** 32 - 1],
  ["payload length", 16, 2 ** 31],
  ["number of tokens", 20, 2 ** 32 - 1],
  ["number of tokens of another model", 20, 5],
  ["number of tokens, none", 20, 0],
  ["priority", 24, 101],
] as const)("a lying %s is refused without allocating what it claims", ([, offset, value]) => {
  const header = forged((bytes) => bytes.writeUInt32LE(value, offset));
  expect(typeof decode(header)).toBe("string");
});

test("a header whose names are no names is refused", () => {
  const keys = [{ key: "AB".repeat(16) }, { key: "../../etc" }, { parentKey: "x" }];
  for (const wrong of keys) expect(typeof decode(forged(() => {}, wrong))).toBe("string");
  const notJson = forged((bytes) => bytes.write("[", 32 + 4 * file.tokens.length));
  expect(decode(notJson)).toBe("its header is not JSON");
});

test("a file of another model or hash rule is told apart", () => {
  const header = headerOf(file);
  const bytes = header.length + shape.bytesPerBlock;
  const otherModel = { ...shape, fingerprint: "f".repeat(32) };
  expect(decodeHeader(header, bytes, otherModel)).toBe("it belongs to another model");
  const otherRule = { ...shape, hashRule: "v1_block_key" };
  expect(decodeHeader(header, bytes, otherRule)).toBe("its key follows another hash rule");
});

test.for([
  { key: "cc".repeat(32) },
  { parentKey: null },
  { scope: "another" },
  { extra: "x" },
  { tokens: Int32Array.of(1, -2, 2 ** 31 - 1, 1) },
  { tokens: Int32Array.of(1, -2, 2 ** 31 - 1) },
])("a read that expects %o does not take another block's file for it", (expected) => {
  const header = headerOf(file);
  expect(verifyBlock({ header, payload }, { ...file, ...expected }, shape)).not.toBe(true);
});

test("a block whose priority changed since it was written is still the same block", () => {
  const header = headerOf(file);
  expect(verifyBlock({ header, payload }, { ...file, priority: 90 }, shape)).toBe(true);
});

test("a scope that would make a header endless is refused", () => {
  expect(encodeHeader({ ...file, scope: "x".repeat(HEADER_BYTES_MAX) }, shape, 0)).toBeNull();
});
