import { describe, expect, test } from "vitest";
import { SamplingParams } from "#sampling";

const parse = (options: object) => SamplingParams.parse(options);

/** The path of the first wrong field. */
function wrongField(options: object): string | undefined {
  const { error } = SamplingParams.safeParse(options);
  const [issue] = error?.issues ?? [];
  return issue?.code === "unrecognized_keys" ? issue.keys[0] : issue?.path.join(".");
}

test("every default is vLLM's", () => {
  expect(parse({})).toEqual({
    n: 1,
    beamWidth: null,
    lengthPenalty: 1,
    earlyStopping: false,
    temperature: 1,
    topP: 1,
    topK: 0,
    minP: 0,
    repetitionPenalty: 1,
    prediction: null,
    presencePenalty: 0,
    frequencyPenalty: 0,
    seed: null,
    speculative: true,
    stop: [],
    stopTokenIds: [],
    includeStopStrInOutput: false,
    ignoreEos: false,
    minTokens: 0,
    maxTokens: 16,
    logprobs: null,
    promptLogprobs: null,
    logprobTokenIds: null,
    logitBias: [],
    allowedTokenIds: null,
    badWords: [],
    detokenize: true,
    skipSpecialTokens: true,
    shownTokenIds: [],
    spacesBetweenSpecialTokens: true,
    structuredOutput: null,
    skipReadingPrefixCache: false,
    thinkingTokenBudget: null,
    repetitionDetection: null,
    streamInterval: 1,
    extraArgs: null,
  });
});

describe("ranges", () => {
  const accepted: [string, unknown[]][] = [
    ["n", [1, 16384]],
    ["beamWidth", [1, 64, null]],
    ["temperature", [0, 0.5, 2]],
    ["topP", [0.001, 1]],
    ["topK", [-1, 0, 1, 1000]],
    ["minP", [0, 1]],
    ["repetitionPenalty", [0.1, 1, 2]],
    ["presencePenalty", [-2, 2]],
    ["frequencyPenalty", [-2, 2]],
    ["seed", [0, -5, 2n ** 63n, null]],
    ["stop", ["x", ["x", "yy"], []]],
    ["stopTokenIds", [[], [0, 7]]],
    ["minTokens", [0, 16]],
    ["maxTokens", [1, 100000, null]],
    ["logprobs", [0, 20, -1, null]],
    ["promptLogprobs", [0, -1, null]],
    ["logprobTokenIds", [[1], Array.from({ length: 128 }, (_, i) => i), null]],
    ["allowedTokenIds", [[0], null]],
    ["badWords", [[], ["a"]]],
    ["thinkingTokenBudget", [0, 100, -1, null]],
    ["repetitionDetection", [{ patternTokensMax: 3, count: 2 }, null]],
    ["streamInterval", [1, 10]],
    ["extraArgs", [{ anything: [1] }, null]],
  ];

  test.each(accepted)("%s may be %o", (field, values) => {
    for (const value of values) expect(wrongField({ [field]: value })).toBeUndefined();
  });

  const refused: [string, unknown[]][] = [
    ["n", [0, 1.5, 16385]],
    ["beamWidth", [0, 1.5, 65]],
    ["temperature", [-0.1, 2.1, Number.NaN, Number.POSITIVE_INFINITY, "1"]],
    ["topP", [0, -1, 1.01]],
    ["topK", [-2, 0.5]],
    ["minP", [-0.1, 1.1]],
    ["repetitionPenalty", [0, -1, 1e-300, 1e7, Number.POSITIVE_INFINITY]],
    ["n", [0, 1.5, 16385, 2 ** 53, Number.NaN]],
    ["seed", [2 ** 53, 2n ** 64n, -(2n ** 63n) - 1n, 10n ** 400n]],
    ["logitBias", [{ 3: Number.NaN }, { 3: Number.POSITIVE_INFINITY }, { "-1": 1 }, { "1e3": 1 }]],
    ["logitBias", [Object.fromEntries(Array.from({ length: 16_385 }, (_, i) => [i, 1]))]],
    ["allowedTokenIds", [Array.from({ length: 262_145 }, () => 1)]],
    ["presencePenalty", [-2.1, 2.1]],
    ["frequencyPenalty", [-2.1, 2.1]],
    ["seed", [1.5, "1"]],
    [
      "stop",
      ["", [""], "x".repeat(1025), ["x".repeat(1025)], Array.from({ length: 65 }, () => "x")],
    ],
    ["stopTokenIds", [[-1], [1.5]]],
    ["minTokens", [-1, 1.5]],
    ["maxTokens", [0, -1]],
    ["logprobs", [-2, 1.5]],
    ["promptLogprobs", [-2]],
    ["logprobTokenIds", [[], Array.from({ length: 129 }, (_, i) => i)]],
    ["allowedTokenIds", [[], [-1]]],
    ["badWords", [[""], ["x".repeat(257)], Array.from({ length: 1025 }, () => "x")]],
    ["thinkingTokenBudget", [-2, 0.5]],
    [
      "repetitionDetection",
      [
        { patternTokensMax: 0, count: 2 },
        { patternTokensMax: 2, count: 1 },
        { patternTokensMax: 257, count: 2 },
        { patternTokensMax: 2, count: 1025 },
      ],
    ],
    ["structuredOutput", [{}, { regex: "a", jsonObject: true }, { choice: [] }]],
    ["streamInterval", [0]],
    ["outputKind", ["delta"]],
    ["flatLogprobs", [true]],
    ["bestOf", [2]],
  ];

  test.each(refused)("%s may not be %o", (field, values) => {
    for (const value of values) {
      expect(wrongField({ [field]: value })?.split(".")[0], `${value}`).toBe(field);
    }
  });
});

describe("rules between fields", () => {
  test("greedy sampling has one sequence", () => {
    expect(wrongField({ temperature: 0, n: 2 })).toBe("n");
  });

  test("minTokens is at most maxTokens", () => {
    expect(wrongField({ minTokens: 17 })).toBe("minTokens");
    expect(wrongField({ minTokens: 17, maxTokens: null })).toBeUndefined();
  });

  test("stop strings need text", () => {
    expect(wrongField({ stop: "x", detokenize: false })).toBe("stop");
  });

  test("the shortest repeated pattern is not longer than the longest", () => {
    const repetitionDetection = { patternTokensMin: 4, patternTokensMax: 3, count: 2 };
    expect(wrongField({ repetitionDetection })).toBe("repetitionDetection.patternTokensMin");
  });
});

describe("values that are changed", () => {
  test("tiny temperatures are greedy, small ones are raised", () => {
    expect(parse({ temperature: 1e-6 }).temperature).toBe(0);
    expect(parse({ temperature: 0.005 }).temperature).toBe(0.01);
  });

  test("greedy ignores what only shapes a distribution", () => {
    const greedy = parse({ temperature: 0, topP: 0.5, topK: 5, minP: 0.1 });
    expect(greedy).toMatchObject({ topP: 1, topK: 0, minP: 0 });
  });

  test("-1 means none", () => {
    expect(parse({ topK: -1, seed: -1, thinkingTokenBudget: -1 })).toMatchObject({
      topK: 0,
      seed: null,
      thinkingTokenBudget: null,
    });
  });

  test("one stop string is a list of one", () => {
    expect(parse({ stop: "end" }).stop).toEqual(["end"]);
  });

  test("numbers that devices take in 32 bits do not wrap, and do not become nothing", () => {
    for (const topK of [2 ** 31, 2 ** 32 + 1, Number.MAX_SAFE_INTEGER]) {
      expect(parse({ topK }).topK).toBe(2 ** 31 - 1);
    }
    for (const topP of [1e-300, 1e-46, 1e-7]) expect(parse({ topP }).topP).toBe(1e-6);
    expect(Math.fround(parse({ repetitionPenalty: 1e-6 }).repetitionPenalty)).toBeGreaterThan(0);
    const zeros = { temperature: -0, minP: -0, presencePenalty: -0, frequencyPenalty: -0 };
    expect(parse({ ...zeros, minTokens: -0 })).toMatchObject({ temperature: 0, topP: 1, topK: 0 });
    for (const maxTokens of [2 ** 32, Number.MAX_SAFE_INTEGER]) {
      expect(parse({ maxTokens, minTokens: maxTokens }).maxTokens).toBe(maxTokens);
    }
  });

  test("logit biases are clamped", () => {
    expect(parse({ logitBias: { 7: 500, 8: -500, 9: 1 } }).logitBias).toEqual([
      { token: 7, value: 100 },
      { token: 8, value: -100 },
      { token: 9, value: 1 },
    ]);
    expect(wrongField({ logitBias: { x: 1 } })).toMatch(/^logitBias/);
  });

  test("prompt log-probabilities need a prompt that is computed", () => {
    expect(parse({ promptLogprobs: 1 }).skipReadingPrefixCache).toBe(true);
    expect(parse({ promptLogprobs: 1, skipReadingPrefixCache: false })).toMatchObject({
      skipReadingPrefixCache: false,
    });
  });
});

describe("beam search", () => {
  const beams = (options: object = {}) => ({ beamWidth: 4, ...options });

  test("samples nothing: parameters that shape a distribution are ignored", () => {
    const params = parse(beams({ temperature: 0.7, topP: 0.5, topK: 3, minP: 0.1, n: 4 }));
    expect(params).toMatchObject({ temperature: 0, topP: 1, topK: 0, minP: 0, n: 4 });
  });

  test("takes the fields that say how to search, and where to end", () => {
    const fields = { lengthPenalty: -0.5, earlyStopping: "never", minTokens: 2, ignoreEos: true };
    expect(parse(beams({ ...fields, stopTokenIds: [7] }))).toMatchObject(fields);
    expect(wrongField(beams({ earlyStopping: "sometimes" }))).toBe("earlyStopping");
    expect(wrongField(beams({ lengthPenalty: 11 }))).toBe("lengthPenalty");
  });

  test("returns at most as many as it searches", () => {
    expect(wrongField(beams({ n: 5 }))).toBe("n");
  });

  test.each([
    ["repetitionPenalty", 1.1],
    ["presencePenalty", 0.5],
    ["frequencyPenalty", -0.5],
    ["stop", "x"],
    ["logprobs", 0],
    ["promptLogprobs", 1],
    ["logprobTokenIds", [1]],
    ["logitBias", { 3: 1 }],
    ["allowedTokenIds", [1]],
    ["badWords", ["x"]],
    ["structuredOutput", { jsonObject: true }],
    ["thinkingTokenBudget", 10],
    ["repetitionDetection", { patternTokensMax: 3, count: 2 }],
  ])("refuses %s by name", (field, value) => {
    expect(wrongField(beams({ [field]: value }))).toBe(field);
  });

  test("its own fields need a width", () => {
    expect(wrongField({ lengthPenalty: 2 })).toBe("lengthPenalty");
    expect(wrongField({ earlyStopping: true })).toBe("earlyStopping");
    expect(wrongField({ lengthPenalty: 1, earlyStopping: false })).toBeUndefined();
  });
});
