import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  decodeWork,
  limitMs,
  prefillWork,
  readShape,
  requestsLimitSeconds,
} from "../../../src/cli/bench/model-work.ts";
import { textRow } from "../../../src/cli/bench/text-table.ts";

const config = JSON.parse(readFileSync("bench/gpu/llama-3.1-8b/config.json", "utf8"));
const shape = readShape(config);
if (shape === null) throw new Error("Llama is counted");
/** Of an H200, as measured. */
const ceilings = { copyGBs: 4270, bf16TFLOPs: 778 };

describe("what work takes at least", () => {
  test("a decoding step reads every matrix but the tokens' table, and all keys and values", () => {
    const matrices = 32 * (6144 + 4096 + 3 * 14_336) * 4096 + 128_256 * 4096;
    const kvBytes = 32 * 2 * 8 * 128 * 2;
    expect(decodeWork(shape, 3, 100).bytes).toBe(2 * matrices + 300 * kvBytes);
  });

  test("attention of a prompt is a triangle", () => {
    const more = prefillWork(shape, 2).flops - 2 * prefillWork(shape, 1).flops;
    // The head is counted once; the second token sees two positions.
    expect(more).toBe(-2 * 128_256 * 4096 + 32 * 4 * 32 * 128);
  });

  test.for([
    [1, 128, 3.52],
    [8, 128, 3.55],
    [64, 576, 4.65],
    [256, 576, 8.04],
    [1, 100_000, 6.58],
  ] as const)(
    "a step of %d sequences with %d tokens has its limit in memory",
    ([batch, context, ms]) => {
      expect(limitMs(decodeWork(shape, batch, context), ceilings)).toBeCloseTo(ms, 2);
    },
  );

  test("prompts have it in GEMMs", () => {
    expect(8192 / limitMs(prefillWork(shape, 8192), ceilings)).toBeCloseTo(48.3, 1);
  });

  test("requests are their prompts and the steps behind them", () => {
    const sizes = { prompts: 1, inputLength: 8192, outputLength: 1 };
    const prompt = limitMs(prefillWork(shape, 8192), ceilings) / 1000;
    expect(requestsLimitSeconds(shape, sizes, ceilings)).toBeCloseTo(prompt, 9);
    const longer = requestsLimitSeconds(shape, { ...sizes, outputLength: 3 }, ceilings);
    expect(longer - prompt).toBeGreaterThan(2 * 0.0035);
  });

  test("models of other kinds are not counted", () => {
    expect(readShape({ ...config, model_type: "gpt2" })).toBeNull();
    expect(readShape({ ...config, hidden_size: "wide" })).toBeNull();
  });
});

test("a row for people has its titles above its values", () => {
  const text = textRow([
    ["work", "8 x 32"],
    ["s", 1.234_56],
    ["limit, s", null],
  ]);
  expect(text).toBe("  work      s  limit, s\n8 x 32  1.235         –\n");
});
