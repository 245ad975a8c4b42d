import { expect, test } from "vitest";
import { paramsOf, parseOptions } from "../../src/sampling/parsed-options.ts";
import { SamplingParams } from "../../src/sampling/sampling-params.ts";

const plain = { temperature: 0.5, stop: ["a"], maxTokens: 4 };
const params = SamplingParams.parse(plain);
const result = parseOptions(plain);
const parsed = "options" in result ? result.options : {};

test("options and their copies have the parameters that they were parsed to", () => {
  expect(paramsOf(parsed)).toEqual(params);
  expect(paramsOf({ ...parsed })).toBe(paramsOf(parsed));
  const { signal, ...rest } = { ...parsed, signal: null };
  expect(signal).toBeNull();
  expect(paramsOf(rest)).toBe(paramsOf(parsed));
});

test("options with another field or value are parsed again", () => {
  expect(paramsOf(plain)).toBeNull();
  expect(paramsOf({ ...parsed, temperature: 3 })).toBeNull();
  expect(paramsOf({ ...parsed, stop: ["a"] })).toBeNull();
  expect(paramsOf({ ...parsed, seed: 1 })).toBeNull();
  const { maxTokens, ...fewer } = { maxTokens: 4, ...parsed };
  expect(maxTokens).toBe(4);
  expect(paramsOf(fewer)).toBeNull();
  expect(paramsOf(JSON.parse(JSON.stringify(parsed)))).toBeNull();
});

test("wrong options are refused", () => {
  expect(parseOptions({ temperature: 3 })).toMatchObject({ error: { issues: [{}] } });
});

test("carried parameters are no field that a schema refuses", () => {
  expect(SamplingParams.parse(parsed)).toEqual(params);
});
