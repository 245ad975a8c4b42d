import { expect, test } from "vitest";
import { type SamplingOptions, SamplingParams } from "#sampling";
import { checkText, plainParams } from "../../src/engine/caller/request-check.ts";

const plain = (options: SamplingOptions) => plainParams(SamplingParams.parse(options));
const circular: Record<string, unknown> = {};
circular.itself = circular;

test("what crosses to the engine is plain data, whatever objects a caller put into it", () => {
  const odd = { toString: () => "odd", when: new Date(0), check: () => true };
  for (const options of [
    { extraArgs: { odd, circular } },
    { structuredOutput: { json: { type: "object", odd } } },
    { structuredOutput: { structuralTag: { odd } } },
    { structuredOutput: { regex: "a" }, stop: ["x"], logitBias: { 3: 1 } },
  ]) {
    expect(() => structuredClone(plain(options))).not.toThrow();
  }
  const schema = { type: "object", properties: { a: { type: "string" } } };
  const json = plain({ structuredOutput: { json: schema } }).structuredOutput?.json;
  expect(JSON.parse(String(json))).toEqual(schema);
  expect(plain({ structuredOutput: { json: "{}" } }).structuredOutput).toEqual({ json: "{}" });
});

test("a schema that JSON cannot say is refused, not thrown from where requests cross", () => {
  for (const json of [circular, { big: 1n }, { toJSON: () => undefined }]) {
    expect(() => plain({ structuredOutput: { json } })).toThrow(
      expect.objectContaining({ code: "GRAMMAR_INVALID" }),
    );
  }
});

test("salts and names are texts of 1 to 1,024 characters at every door", () => {
  for (const value of ["a", "a".repeat(256), null, undefined]) {
    expect(() => checkText("cacheSalt", value)).not.toThrow();
  }
  for (const value of ["", "a".repeat(1_025), "\ud800", 7, {}]) {
    expect(() => checkText("cacheSalt", value)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", param: "cacheSalt" }),
    );
  }
});
