import { expect, test } from "vitest";
import { z } from "zod";
import { describeIssue, fieldNames, invalidSetting, issueText } from "#base";

const Settings = z.strictObject({
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().gt(0).optional(),
  maxTokens: z.int().positive().nullish(),
  stop: z.union([z.string().min(1), z.array(z.string().min(1)).max(2)]).optional(),
  seed: z.union([z.int(), z.bigint()]).nullish(),
  keys: z.array(z.string()).optional(),
  device: z.enum(["auto", "cpu", "reference"]).optional(),
  cache: z.strictObject({ blockTokens: z.int().optional() }).optional(),
  even: z
    .int()
    .refine((value) => value % 2 === 0, { error: "must be even" })
    .optional(),
});

test.for<[Record<string, unknown>, string, string]>([
  [{ temperature: 9 }, "temperature", "must be at most 2, current value is 9"],
  [{ temperature: -1 }, "temperature", "must be at least 0, current value is -1"],
  [{ topP: 0 }, "topP", "must be more than 0, current value is 0"],
  [{ temperature: "hot" }, "temperature", 'must be a number, current value is "hot"'],
  [{ maxTokens: 1.5 }, "maxTokens", "must be an integer, current value is 1.5"],
  [{ maxTokens: 0 }, "maxTokens", "must be more than 0, current value is 0"],
  [{ stop: "" }, "stop", 'must not be empty, current value is ""'],
  [{ stop: ["a", ""] }, "stop.1", 'must not be empty, current value is ""'],
  [{ stop: ["a", "b", "c"] }, "stop", 'must have at most 2 items, current value is ["a","b","c"]'],
  [{ stop: 5 }, "stop", "must be a text or a list, current value is 5"],
  [{ seed: "x" }, "seed", "must be an integer, current value is x"],
  [{ device: "tpu" }, "device", "must be auto, cpu or reference, current value is tpu"],
  [{ cache: { blockToken: 1 } }, "cache.blockToken", "is not a known field"],
  [{ cache: { blockTokens: "x" } }, "cache.blockTokens", 'must be a number, current value is "x"'],
  [{ temperature: Number.NaN }, "temperature", "must be a number, current value is NaN"],
  [{ keys: "secret" }, "keys", "must be a list, current value is a text"],
  [{ even: 3 }, "even", "must be even, current value is 3"],
])("%j: what is wrong, and what it must be", ([settings, param, text]) => {
  const result = Settings.safeParse(settings, { error: issueText });
  expect(describeIssue(result.error?.issues[0] ?? {}, settings)).toEqual({ param, text });
});

test.for<[Record<string, unknown>, string]>([
  [{ temprature: 1 }, "Cannot use temprature: is not a known field; did you mean temperature?"],
  [{ max_tokens: 1 }, "Cannot use max_tokens: is not a known field; did you mean maxTokens?"],
  [
    { cache: { blockToken: 1 } },
    "blockToken: is not a known field; did you mean cache.blockTokens?",
  ],
  [{ blockTokens: 1 }, "blockTokens: is not a known field; did you mean cache.blockTokens?"],
  [{ zebra: 1 }, "Cannot use zebra: is not a known field"],
])("%j: the field that was meant is told", ([settings, message]) => {
  const { error } = Settings.safeParse(settings, { error: issueText });
  if (error === undefined) throw new Error("the schema must refuse this");
  expect(invalidSetting(error, settings, fieldNames(Settings)).message.endsWith(message)).toBe(
    true,
  );
});

test("names of fields are found behind defaults, checks and transformations", () => {
  const inner = z.strictObject({ a: z.int().prefault(1) }).prefault({});
  const schema = z
    .strictObject({ inner, list: z.array(z.strictObject({ b: z.int() })) })
    .refine(() => true)
    .transform((value) => value)
    .readonly();
  expect(fieldNames(schema)).toEqual(["inner", "inner.a", "list"]);
  expect(fieldNames(z.string())).toEqual([]);
});

test("a long value is cut", () => {
  const settings = { device: "x".repeat(200) };
  const result = Settings.safeParse(settings, { error: issueText });
  expect(describeIssue(result.error?.issues[0] ?? {}, settings).text).toMatch(/ x{80}…$/);
});

test("a refusal becomes an error that names the first wrong field and keeps its cause", () => {
  const settings = { temperature: 9 };
  const { error } = Settings.safeParse(settings, { error: issueText });
  if (error === undefined) throw new Error("the schema must refuse this");
  expect(invalidSetting(error, settings)).toMatchObject({
    code: "INVALID_ARGUMENT",
    param: "temperature",
    message: "Cannot use temperature: must be at most 2, current value is 9",
    cause: error,
  });
});

test("a value that JSON does not know is called by its type", () => {
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  for (const value of [() => 1, Symbol("s"), circle, [1n]]) {
    const settings = { temperature: value };
    const parsed = Settings.safeParse(settings, { error: issueText });
    if (parsed.success) throw new Error("It must be refused");
    expect(invalidSetting(parsed.error, settings).message).toMatch(/current value is a \w+$/);
  }
});
