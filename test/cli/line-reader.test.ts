import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { LINE_BYTES_MAX, readLines } from "../../src/cli/line-reader.ts";

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");

/** Of buffers, without those that are garbage. */
function heldBytes(): number {
  collect();
  return process.memoryUsage().arrayBuffers;
}

async function linesOf(...chunks: readonly (string | Uint8Array)[]) {
  async function* source() {
    yield* chunks;
  }
  const lines = [];
  for await (const line of readLines(source())) lines.push(line);
  return lines;
}

test("lines are found however they are cut, with either end and with none", async () => {
  const expected = ["a", "", "\u00e9\u2192", "end"].map((text, index) => ({
    number: index + 1,
    text,
  }));
  const bytes = Buffer.from("a\n\r\n\u00e9\u2192\r\nend");
  expect(await linesOf(bytes)).toEqual(expected);
  expect(await linesOf(...[...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(expected);
});

test("a mark of the byte order is no part of a text", async () => {
  expect(await linesOf(Buffer.from('\ufeff"a"\n'))).toEqual([{ number: 1, text: '"a"' }]);
});

test("a line without end is told by its size, and the next one is read", async () => {
  const piece = Buffer.alloc(2 ** 20, 0x61);
  const held: number[] = [];
  async function* source() {
    const before = heldBytes();
    for (let at = 0; at < 40; at++) yield piece;
    held.push(heldBytes() - before);
    yield "\nshort";
  }
  const lines = [];
  for await (const line of readLines(source())) lines.push(line);
  const [first, second] = lines;
  expect(first).toEqual({ number: 1, problem: expect.stringContaining(`has ${40 * 2 ** 20}`) });
  expect(second).toEqual({ number: 2, text: "short" });
  expect(held[0]).toBeLessThan(2 * LINE_BYTES_MAX);
});
