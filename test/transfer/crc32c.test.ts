import { expect, test } from "vitest";
import { crc32c, plainCrc32c } from "../../src/transfer/crc32c.ts";
import { transferLibrary } from "../../src/transfer/native/library.ts";

const data = Uint8Array.from({ length: 20_000 }, (_, at) => (at * 7 + (at >> 9)) & 255);

test("[TR18] checksums are CRC32C, by instructions, by table and in JavaScript", () => {
  const known = Buffer.from("123456789");
  expect([crc32c(known), plainCrc32c(known)]).toEqual([0xe3069283, 0xe3069283]);
  const library = transferLibrary();
  for (const bytes of [0, 1, 7, 8, 3071, 3072, 3073, 6150, 20_000]) {
    const part = data.subarray(0, bytes);
    expect(crc32c(part)).toBe(plainCrc32c(part));
    if (library === null) continue;
    for (const seed of [0, 77]) {
      expect(library.crc32c(part, bytes, seed)).toBe(library.crc32cPlain(part, bytes, seed));
    }
  }
});
