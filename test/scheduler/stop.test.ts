import { describe, expect, test } from "vitest";
import { TokenList } from "#base";
import { endAfterNewest, NO_STOP_RULES, type StopRules } from "#scheduler";

const END = 2;
const base: StopRules = {
  ...NO_STOP_RULES,
  maxTokens: 100,
  eosTokenIds: new Set([END]),
  stopTokenIds: new Set([42]),
};

/** The end after the last of `generated`, behind a prompt of 4 tokens. */
function endAfter(generated: number[], rules: Partial<StopRules> = {}, contextTokensMax = 1000) {
  const tokens = new TokenList(Int32Array.of(END, 42, 42, END));
  for (const token of generated) tokens.push(token);
  return endAfterNewest(tokens, { ...base, ...rules }, { promptLength: 4, contextTokensMax });
}

describe("[SC12] a sequence ends by itself", () => {
  test("at an end token, without naming it", () => {
    expect(endAfter([10, END])).toEqual({ reason: "stop", stopReason: null });
    expect(endAfter([10, 11])).toBeNull();
  });

  test("at a stop token, naming it, even where end tokens are ignored", () => {
    expect(endAfter([10, 42], { ignoreEos: true })).toEqual({ reason: "stop", stopReason: 42 });
    expect(endAfter([10, END], { ignoreEos: true })).toBeNull();
    const listed = { ignoreEos: true, stopTokenIds: new Set([END]) };
    expect(endAfter([10, END], listed)).toEqual({ reason: "stop", stopReason: END });
  });

  test("at its most tokens, or those of the context", () => {
    expect(endAfter([10, 11], { maxTokens: 2 })).toEqual({ reason: "length", stopReason: null });
    expect(endAfter([10], { maxTokens: 2 })).toBeNull();
    expect(endAfter([10, 11], { maxTokens: null }, 6)?.reason).toBe("length");
    expect(endAfter([10, 11], { maxTokens: null }, 7)).toBeNull();
  });

  test("at an end token rather than at a length, when both hold", () => {
    expect(endAfter([10, END], { maxTokens: 2 })?.reason).toBe("stop");
  });

  test("V 5.2 (S6): not by token before minTokens, but at it", () => {
    const rules = { minTokens: 5 };
    for (const stopping of [END, 42]) {
      expect(endAfter([10, 11, 12, stopping], rules)).toBeNull();
      expect(endAfter([10, 11, 12, 13, stopping], rules)?.reason).toBe("stop");
    }
  });

  test("at the context even before minTokens: there is no room to go on", () => {
    expect(endAfter([10, 11], { minTokens: 5 }, 6)?.reason).toBe("length");
  });

  test("V 5.2 (S24): when it repeats itself often enough", () => {
    const repetition = { patternTokensMin: 2, patternTokensMax: 3, count: 3 };
    expect(endAfter([1, 4, 3, 1, 4, 3, 1, 4, 3], { repetition })).toEqual({
      reason: "stop",
      stopReason: "repetition",
    });
    expect(endAfter([1, 4, 3, 1, 4, 3], { repetition })).toBeNull();
    expect(endAfter([9, 9, 9, 9, 9, 9], { repetition })?.stopReason).toBe("repetition");
    expect(endAfter([9, 9, 9], { repetition })).toBeNull();
  });
});
