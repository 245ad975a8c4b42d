import { expect, test } from "vitest";
import { EngineError, shortText, valueText } from "#base";

test("texts stand as they are, other values as JSON, and both end somewhere", () => {
  expect(valueText("a")).toBe("a");
  expect(valueText("")).toBe('""');
  expect(valueText([1, null])).toBe("[1,null]");
  expect(valueText(undefined)).toBe("a undefined");
  expect(valueText(2n ** 64n)).toBe("18446744073709551616");
  expect(valueText("x".repeat(1000))).toBe(`${"x".repeat(80)}…`);
  expect(shortText("abc", 2)).toBe("ab…");
});

test("a value that is nested as deep as JSON.parse goes is no reason to fail", () => {
  const deep: unknown = JSON.parse("[".repeat(100_000) + "]".repeat(100_000));
  expect(() => JSON.stringify(deep)).toThrow(RangeError);
  expect(valueText(deep)).toBe("a object");
});

test("a message that quotes without end is cut in its middle: the remedy stays", () => {
  const message = `Cannot load it: ${"x".repeat(1e6)}; download it again`;
  const error = new EngineError("CHECKPOINT_INVALID", message);
  expect(error.message).toHaveLength(1503);
  expect(error.message).toMatch(/^Cannot load it: x+ … x+; download it again$/);
  expect(new EngineError("IO", "Cannot read x").message).toBe("Cannot read x");
});
