import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { textOf, Utf8Stream } from "../../src/tokenizer/utf8-stream.ts";

describe("Utf8Stream", () => {
  test("gives the text of any bytes, however they are cut", () => {
    // Bytes around the borders of UTF-8's forms are the ones that decoders get wrong.
    const border = fc.constantFrom(
      ...[0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf],
      ...[0xe0, 0xe4, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff, 0xbb],
    );
    const chunks = fc.array(fc.array(border, { maxLength: 4 }), { maxLength: 12 });
    fc.assert(
      fc.property(chunks, (parts) => {
        const stream = new Utf8Stream();
        const texts = parts.map((part) => stream.push(Uint8Array.from(part)));
        expect(texts.join("") + stream.flush()).toBe(textOf(Uint8Array.from(parts.flat())));
      }),
      { numRuns: 3000, seed: 7 },
    );
  });

  test("holds at most three bytes back", () => {
    const stream = new Utf8Stream();
    expect(stream.push(Uint8Array.of(0xf0, 0x9f, 0x98))).toBe("");
    expect(stream.push(Uint8Array.of(0x80))).toBe("😀");
    expect(stream.push(Uint8Array.of(0xff))).toBe("\ufffd");
    expect(stream.flush()).toBe("");
  });
});
