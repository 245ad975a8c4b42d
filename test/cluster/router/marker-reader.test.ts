import { describe, expect, test } from "vitest";
import { MarkerReader } from "../../../src/cluster/router/marker-reader.ts";
import { LineReader } from "../../../src/cluster/router/stream-reader.ts";

const event = (text: string) => `data: {"choices":[{"delta":{"content":"${text}"}}]}\n\n`;
const STREAM =
  `: p 0 9 8\n\n${event("été")}: t 0 1,2\n\n: t 0 3\n\n${event("x")}: t 0 - end\n\n` +
  `data: {"usage":{"prompt_tokens":9}}\n\ndata: [DONE]\n\n`;

function readAll(reader: MarkerReader | LineReader, bytes: Buffer, step: number): string {
  let out = "";
  for (let at = 0; at < bytes.length; at += step) {
    out += reader.read(bytes.subarray(at, at + step)).text;
  }
  return Buffer.from(out, "latin1").toString("utf8");
}

describe("streams with markers", () => {
  test.each([1, 2, 7, 50, 10_000])(
    "[CL84] in pieces of %i bytes: events go on, markers are kept",
    (step) => {
      const reader = new MarkerReader(1);
      const text = readAll(reader, Buffer.from(STREAM), step);
      expect(text).toBe(STREAM.replace(/: [pt] .*\n\n/g, ""));
      expect(reader.choices).toEqual([{ ids: "1,2,3", tokens: 3, ended: true }]);
      expect(reader.prompts).toEqual([{ index: 0, tokens: 9, cachedTokens: 8 }]);
      expect([reader.allEnded, reader.isComplete, reader.hasUsage]).toEqual([true, true, true]);
    },
  );

  test("[CL84] what has no marker yet is not relayed, and is dropped where a worker ends", () => {
    const reader = new MarkerReader(1);
    expect(reader.read(Buffer.from(event("a"))).text).toBe("");
    expect(reader.read(Buffer.from(`: t 0 5\n\n${event("b")}`)).text).toBe(event("a"));
    reader.restart();
    expect(reader.read(Buffer.from(`${event("c")}: t 0 6\n\n`)).text).toBe(event("c"));
    expect(reader.choices[0]?.ids).toBe("5,6");
  });

  test("[CL84] of each prompt the first worker's finds count", () => {
    const reader = new MarkerReader(2);
    reader.read(Buffer.from(": p 0 9 8\n\n: t 0 5\n\n"));
    reader.restart();
    reader.read(Buffer.from(": p 1 9 3\n\n: t 1 5\n\n: p 0 9 9\n\n: t 0 6\n\n"));
    expect(reader.cachedTokens).toBe(8 + 3);
  });

  test("[CL84] a worker's own error is held back", () => {
    const reader = new MarkerReader(1);
    const error = '{"error":{"message":"a step failed"}}';
    reader.read(Buffer.from(`${event("a")}: t 0 5\n\ndata: ${error}\n\ndata: [DONE]\n\n`));
    expect([reader.failure, reader.isComplete]).toEqual([error, false]);
  });

  test.each([": t 7 1\n\n", ": t 0 one\n\n", ": t 0 1,,2\n\n", ": t 0 x end\n\n", ": p a b c\n\n"])(
    "[CL88] %j is refused",
    (marker) => {
      const reader = new MarkerReader(1);
      const bytes = Buffer.from(`${event("a")}${marker}${event("b")}: t 0 5\n\n`);
      expect(reader.read(bytes)).toEqual({ text: "", tokens: 0 });
      expect(reader.broken).toMatch(/^a marker/);
      expect(reader.choices).toEqual([{ ids: "", tokens: 0, ended: false }]);
      reader.restart();
      expect([reader.broken, reader.plainForm]).toEqual([null, { choices: 1, live: 1n }]);
    },
  );

  test.each([1, 9, 10_000])(
    "[CL261] what came with markers before a broken one is relayed, pieces of %i bytes",
    (step) => {
      const reader = new MarkerReader(2);
      const good = `: p 0 9 8\n\n${event("a")}: t 0 1,2\n\n${event("b")}: t 1 3 end\n\n`;
      const broken = `${event("c")}: t 0 4,x end\n\n`;
      const bytes = Buffer.from(good + broken);
      let out = "";
      let tokens = 0;
      for (let at = 0; at < bytes.length && reader.broken === null; at += step) {
        const piece = reader.read(bytes.subarray(at, at + step));
        out += piece.text;
        tokens += piece.tokens;
      }
      expect(out).toBe(event("a") + event("b"));
      expect([tokens, reader.broken]).toEqual([3, "a marker without token ids"]);
      expect(reader.choices).toEqual([
        { ids: "1,2", tokens: 2, ended: false },
        { ids: "3", tokens: 1, ended: true },
      ]);
    },
  );

  test("[CL88] text without markers is not held without end", () => {
    const reader = new MarkerReader(1);
    const piece = Buffer.alloc(2 ** 20, "x");
    for (let turn = 0; turn < 20; turn++) reader.read(piece);
    expect(reader.broken).toContain("without markers");
  });
});

describe("streams of others", () => {
  test.each([1, 5, 1000])("[CL80] lines are relayed as they are, in pieces of %i bytes", (step) => {
    const text = `${event("été")}: ping\r\n\r\n${event("b")}data: [DONE]\n\n`;
    const reader = new LineReader();
    expect(readAll(reader, Buffer.from(text), step)).toBe(text);
    expect(reader.isComplete).toBe(true);
  });

  test("[CL88] a line without end is not held", () => {
    const reader = new LineReader();
    for (let turn = 0; turn < 20; turn++) reader.read(Buffer.alloc(2 ** 20, "x"));
    expect([reader.broken, reader.isComplete]).toEqual(["an event without end", false]);
  });

  test("[CL80] events are counted as tokens", () => {
    const bytes = Buffer.from(`${event("a")}${event("b")}: ping\n\ndata: [DONE]\n\n`);
    expect(new LineReader().read(bytes).tokens).toBe(2);
  });
});
