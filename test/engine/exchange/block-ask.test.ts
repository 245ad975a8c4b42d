import { describe, expect, test } from "vitest";
import {
  type BlockAsk,
  decodeAnswer,
  decodeAsk,
  encodeAnswer,
  encodeAsk,
} from "../../../src/engine/exchange/block-ask.ts";

const limits = { tokensMax: 100, vocabularySize: 1000 };

const ask: BlockAsk = {
  ...{ fingerprint: "abc", blockTokens: 16, bytesPerBlock: 1024, cacheSalt: "salt\n" },
  ...{ sharingScope: "cuda 1", prefix: { host: "10.0.0.7", port: 9000 } },
  ...{ from: 1, blocks: 2, compute: true, spare: false, priority: -3, deadlineMs: 1000 },
  tokens: Int32Array.from([0, 999, 5]),
};

/** The question's bytes with its head replaced. */
function withHead(head: unknown, ids: Buffer = Buffer.from([1, 0, 0, 0])): Buffer {
  const text = Buffer.from(typeof head === "string" ? head : JSON.stringify(head));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(text.length);
  return Buffer.concat([length, text, ids]);
}

describe("a question for blocks", () => {
  test("comes back as it was", () => {
    expect(decodeAsk(encodeAsk(ask), limits)).toEqual(ask);
    const shifted = Buffer.concat([Buffer.from("x"), encodeAsk(ask)]).subarray(1);
    expect(decodeAsk(shifted, limits)).toEqual(ask);
  });

  const { tokens: _tokens, ...head } = ask;
  test.each([
    ["nothing", Buffer.alloc(0)],
    ["a part of a length", Buffer.from([1, 2])],
    ["a head that does not end", Buffer.from([255, 255, 255, 255, 123])],
    ["a long head", withHead("x".repeat(9000))],
    ["no JSON", withHead("{")],
    ["another JSON", withHead([1])],
    ["a further field", withHead({ ...head, __proto__x: 1 })],
    ["a missing field", withHead({ ...head, compute: undefined })],
    ["a negative block", withHead({ ...head, from: -1 })],
    ["no blocks", withHead({ ...head, blocks: 0 })],
    ["a fraction", withHead({ ...head, blocks: 1.5 })],
    ["a long salt", withHead({ ...head, cacheSalt: "s".repeat(5000) })],
    ["a long scope", withHead({ ...head, sharingScope: "s".repeat(300) })],
    ["a prefix without a port", withHead({ ...head, prefix: { host: "a" } })],
    ["a prefix with a port of text", withHead({ ...head, prefix: { host: "a", port: "9" } })],
    ["a prefix with more", withHead({ ...head, prefix: { host: "a", port: 9, x: 1 } })],
    [
      "a prefix with a long host",
      withHead({ ...head, prefix: { host: "a".repeat(300), port: 9 } }),
    ],
    ["no ids", withHead(head, Buffer.alloc(0))],
    ["a part of an id", withHead(head, Buffer.alloc(6))],
    ["too many ids", withHead(head, Buffer.alloc(404))],
    ["an id above all", encodeAsk({ ...ask, tokens: Int32Array.from([1000]) })],
    ["a negative id", encodeAsk({ ...ask, tokens: Int32Array.from([-1]) })],
  ])("is refused: %s", (_name, message) => {
    expect(() => decodeAsk(message, limits)).toThrow(/^Cannot read another engine's message: /);
  });

  test("of random bytes is refused, or is one", () => {
    let state = 7;
    const random = () => {
      state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
      return state / 2 ** 31;
    };
    for (let round = 0; round < 10_000; round++) {
      const bytes = Buffer.from(encodeAsk(ask));
      for (let flips = 0; flips < 3; flips++) {
        bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      }
      const cut = bytes.subarray(0, Math.floor(random() * (bytes.length + 1)));
      try {
        const read = decodeAsk(round % 2 === 0 ? bytes : cut, limits);
        expect(read.tokens.every((id) => id >= 0 && id < 1000)).toBe(true);
      } catch (error) {
        expect(String(error)).toMatch(/Cannot read another engine's message: /);
      }
    }
  });
});

test("an answer comes back as it was, and others are refused", () => {
  const answer = { level: "host" as const, offer: "00ff", port: 4000, blocks: 3, storedBlocks: 1 };
  expect(decodeAnswer(encodeAnswer(answer))).toEqual(answer);
  expect(decodeAnswer(encodeAnswer({ error: "no" }))).toEqual({ error: "no" });
  for (const other of ["", "null", '{"offer":1}', '{"error":"a","offer":"b"}', "x".repeat(9000)]) {
    expect(() => decodeAnswer(Buffer.from(other))).toThrow(/another engine's message/);
  }
  for (const own of [{ port: 70_000 }, { level: "disk" as "host" }]) {
    const bad = encodeAnswer({ ...answer, ...own });
    expect(() => decodeAnswer(bad)).toThrow(/another engine's message/);
  }
});
