import { describe, expect, test } from "vitest";
import { EngineError } from "#base";
import {
  checkedRetention,
  decodeRetention,
  promptRetention,
  type RetentionConfig,
  retentionWarning,
  type TokenRangeRetention,
} from "#kvcache";
import { timelessLease } from "../../src/kvcache/eviction/retention.ts";

type Range = readonly [start: number, end: number | null, priority?: number];

const config = (...ranges: Range[]): RetentionConfig => ({
  ranges: ranges.map(([start, end, priority = 80]) => ({ start, end, priority, durationMs: null })),
  decodePriority: 35,
  decodeDurationMs: null,
});

function refusal(wrong: RetentionConfig): EngineError {
  try {
    checkedRetention(wrong);
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
  throw new Error("was not refused");
}

describe("checkedRetention", () => {
  test.for([
    [
      [0, null],
      [64, 128],
    ],
    [
      [0, 64],
      [64, 32],
    ],
    [
      [0, 64],
      [30, 128],
    ],
  ] as const)("T 1: ranges %j are refused", (ranges) => {
    const error = refusal(config(...ranges));
    expect([error.code, error.param]).toEqual(["INVALID_ARGUMENT", "retention"]);
  });

  test("T 1: unsorted ranges and gaps are fine, and come back sorted", () => {
    const sorted = checkedRetention(config([128, null], [0, 16], [16, 64]));
    expect(sorted.ranges.map(({ start }) => start)).toEqual([0, 16, 128]);
  });

  const withRange = (change: Partial<TokenRangeRetention>): RetentionConfig => ({
    ...config(),
    ranges: [{ start: 0, end: 64, priority: 35, durationMs: null, ...change }],
  });

  test.for([
    [withRange({ start: -1 }), "ranges[0].start: must be an integer of at least 0", "-1"],
    [withRange({ start: 0.5 }), "ranges[0].start: must be an integer of at least 0", "0.5"],
    [withRange({ end: 0 }), "ranges[0].end: must be an integer above the range's start (0)", "0"],
    [withRange({ end: 1.5 }), "ranges[0].end: must be an integer above", "1.5"],
    [withRange({ priority: 101 }), "ranges[0].priority: must be an integer from 0 to 100", "101"],
    [withRange({ priority: -1 }), "ranges[0].priority: must be an integer from 0 to 100", "-1"],
    [withRange({ priority: 1.5 }), "ranges[0].priority: must be an integer from 0 to 100", "1.5"],
    [withRange({ durationMs: 0 }), "ranges[0].durationMs: must be more than 0, or null", "0"],
    [withRange({ durationMs: Infinity }), "ranges[0].durationMs: must be more than 0", "Infinity"],
    [withRange({ durationMs: NaN }), "ranges[0].durationMs: must be more than 0", "NaN"],
    [{ ...config(), decodePriority: 200 }, "decodePriority: must be an integer", "200"],
    [{ ...config(), decodeDurationMs: -5 }, "decodeDurationMs: must be more than 0", "-5"],
    [config([64, 128], [0, null]), "ranges[1].end: must be at most 64, where another", "null"],
    [config([30, 90], [0, 64]), "ranges[0].start: must be at least 64, the end of the", "30"],
  ] as const)("what is wrong is named, with its value: %#", ([wrong, text, current]) => {
    const { message } = refusal(wrong);
    expect(message).toContain(`Cannot use retention.${text}`);
    expect(message.endsWith(`, current value is ${current}`)).toBe(true);
  });
});

describe("promptRetention", () => {
  const priorities = (prompt: RetentionConfig, blockTokens: number, tokens: number) =>
    promptRetention(checkedRetention(prompt), tokens, blockTokens).map(
      (said) => said?.priority ?? null,
    );

  test.for([
    [config([0, 64, 80], [64, 128, 50]), 64, 256, [80, 50, null, null]],
    [config([0, 63, 80], [63, 127, 30]), 32, 127, [80, 80, 30, 30]],
    [config([0, 1, 80], [1, 2, 5]), 32, 128, [80, null, null, null]],
    [config([0, 128, 80]), 256, 192, [80]],
    [config([0, 65, 80], [65, 129, 30]), 64, 192, [80, 80, 30]],
    [config([0, 64, 80], [129, null, 50]), 64, 256, [80, null, null, 50]],
    [config([0, 64, 80], [66, 67, 50]), 64, 256, [80, null, null, null]],
    [config([127, 193, 80]), 64, 256, [null, null, 80, 80]],
    [config([127, 193, 80]), 64, 32, [null]],
    [config([1, null, 80]), 64, 128, [null, 80]],
  ] as const)("T 2: a block belongs to the range of its first token: %#", (row) => {
    const [prompt, blockTokens, tokens, expected] = row;
    expect(priorities(prompt, blockTokens, tokens)).toEqual(expected);
  });

  test("T 2: of [0, 17) a second block of 16 is covered, and a prompt without tokens has none", () => {
    expect(priorities(config([0, 17]), 16, 40)).toEqual([80, 80, null]);
    expect(priorities(config([0, 17]), 16, 0)).toEqual([]);
  });

  test("a duration goes with its priority, and generated tokens have their own", () => {
    const prompt: RetentionConfig = {
      ranges: [{ start: 0, end: 4, priority: 35, durationMs: 250 }],
      decodePriority: 20,
      decodeDurationMs: 9,
    };
    expect(promptRetention(prompt, 8, 4)).toEqual([{ priority: 35, durationMs: 250 }, null]);
    expect(decodeRetention(prompt)).toEqual({ priority: 20, durationMs: 9 });
  });
});

test("[KV36] where no time is kept, what has an end is worth what it will be worth then", () => {
  const none = { durationMs: null, deadlineMs: null };
  for (const priority of [5, 91]) {
    expect(timelessLease({ ...none, priority })).toEqual({ ...none, priority });
    expect(timelessLease({ priority, durationMs: 9, deadlineMs: 12 })).toEqual({
      ...none,
      priority: 35,
    });
  }
});

describe("retentionWarning", () => {
  test.for([
    [config()],
    [config([0, 64, 20])],
    [config([0, 64, 80], [64, null, 80])],
    [config([64, null, 20], [0, 64, 80])],
    [{ ...config([0, null, 90]), decodePriority: 90 }],
    // The request said nothing about the output.
    [config([0, null, 20])],
  ])("says nothing of priorities that do not rise: %#", ([fine]) => {
    expect(fine && retentionWarning(fine)).toBeNull();
  });

  test("[KV37] says why a range that is worth less than a later one cannot help", () => {
    const warning = retentionWarning(config([64, 128, 80], [0, 64, 20], [256, null, 30]));
    expect(warning).toContain("tokens from 0 on have priority 20");
    expect(warning).toContain("tokens from 64 on that continue them have 80");
    expect(warning).toContain("found only through all blocks before it");
  });

  test("says the same of generated tokens that are worth more than the prompt", () => {
    const rising = { ...config([0, null, 50]), decodePriority: 90 };
    expect(retentionWarning(rising)).toContain("generated tokens that continue them have 90");
  });
});
