import { expect, test } from "vitest";
import { parseEngineOptions } from "../../src/engine/protocol/config.ts";

test("no window and no sinks are asked for by default", () => {
  expect(parseEngineOptions({}).kvCache).toMatchObject({
    attentionWindow: null,
    attentionSinks: 0,
  });
});

test("sinks are taken with a window that has room for more", () => {
  const kvCache = { attentionWindow: 5, attentionSinks: 4 };
  expect(parseEngineOptions({ kvCache }).kvCache).toMatchObject(kvCache);
});

test.for([
  [{ attentionSinks: 4 }, "needs attentionWindow"],
  [{ attentionWindow: 4, attentionSinks: 4 }, "must be less than attentionWindow"],
  [{ attentionWindow: 0 }, "attentionWindow"],
] as const)("%o is refused: %s", ([kvCache, message]) => {
  expect(() => parseEngineOptions({ kvCache })).toThrow(message);
  expect(() => parseEngineOptions({ kvCache })).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT" }),
  );
});

test("blocks of other engines need the prefix cache, which finds them", () => {
  const without = { kvTransfer: {}, kvCache: { prefixCaching: false } };
  expect(() => parseEngineOptions(without)).toThrow("needs kvCache.prefixCaching");
  expect(parseEngineOptions({ kvTransfer: {} }).kvTransfer).toMatchObject({ port: 0 });
});
