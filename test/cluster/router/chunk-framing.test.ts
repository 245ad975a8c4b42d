import { expect, test } from "vitest";
import { ChunkFraming } from "../../../src/cluster/router/chunk-framing.ts";

const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;

/** What is read of `bytes` in pieces of `size`, and what is left to another parser. */
function read(bytes: string, size: number) {
  const framing = new ChunkFraming();
  let content = "";
  for (let at = 0; at < bytes.length; at += size) {
    const piece = Buffer.from(bytes.slice(at, at + size), "latin1");
    const found = framing.read(piece);
    content += found.content.toString("latin1");
    if (found.rest !== null) return { content, rest: found.rest.toString("latin1"), framing };
  }
  return { content, rest: null, framing };
}

const SIZES = [1, 2, 3, 5, 7, 16, 64, 100_000];

test.for(SIZES)("[CL193] the content of chunks is read in pieces of %i bytes", (size) => {
  const texts = Array.from(
    { length: 60 },
    (_, at) => `${at}\r\n${"ab\r\n0\r\n\r\n".repeat(at % 9)}`,
  );
  const { content, rest, framing } = read(texts.map(chunk).join(""), size);
  expect(content).toBe(texts.join(""));
  expect(rest).toBeNull();
  expect(framing.isBetween).toBe(true);
});

const ENDS = ["0\r\n\r\n", "00\r\n\r\n", "0;a=b\r\n\r\n", "0\r\nx: y\r\n\r\n"];
const OTHERS = ["5;a=b\r\nhello\r\n", "fffffffff\r\n", "\r\n", "x\r\n", "-1\r\n", " 5\r\n", "5\n"];

test.for([...ENDS, ...OTHERS])("[CL193] %j is left to undici, from its first byte on", (other) => {
  for (const size of SIZES) {
    const { content, rest } = read(chunk("hello") + other, size);
    expect(content).toBe("hello");
    // What has not come yet is none of it.
    expect(rest).not.toBeNull();
    expect(rest).not.toBe("");
    expect(other.startsWith(rest ?? "?")).toBe(true);
  }
});

test("[CL193] a chunk that is longer than it says is a failure of undici, not a chunk", () => {
  for (const size of SIZES) {
    const { content, rest } = read("5\r\nhello!\r\n", size);
    expect(content).toBe("hello");
    expect(rest).toBe("no chunk\r\n");
  }
});

test("[CL193] a size is no more than its digits: what waits for an end stays short", () => {
  const framing = new ChunkFraming();
  for (let count = 0; count < 7; count++) expect(framing.read(Buffer.from("1")).rest).toBeNull();
  expect(framing.read(Buffer.from("1")).rest?.toString()).toBe("11111111");
});
