import { expect, test } from "vitest";
import { BODY_LEVELS_MAX, checkBodyShape } from "../../src/server/body-shape.ts";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const nested = (depth: number): unknown => JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`);

test("bodies nested as deeply as the limit are taken, deeper ones are refused", () => {
  expect(() => checkBodyShape({ a: nested(BODY_LEVELS_MAX) }, 1000)).not.toThrow();
  expect(() => checkBodyShape({ a: nested(BODY_LEVELS_MAX + 1) }, 1000)).toThrow(/64 levels/);
});

test("values are counted wherever they stand, token ids of prompts apart", () => {
  const many = new Array(2000).fill(null);
  expect(() => checkBodyShape({ messages: many }, 1000)).toThrow(/at most 1000 values/);
  expect(() => checkBodyShape({ a: { b: [{ c: many.map(() => 1) }] } }, 1000)).toThrow(/1000/);
  const ids = many.map((_, at) => at);
  expect(() => checkBodyShape({ prompt: ids }, 1000)).not.toThrow();
  expect(() => checkBodyShape({ prompt: [ids, ids] }, 1000)).not.toThrow();
});

test("a body of more values than the server takes is refused by name", async () => {
  const { post } = await serveToy({}, { requestValuesMax: 50 });
  const answer = await post("/v1/completions", { prompt: "a", stop: new Array(60).fill("x") });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.code).toBe("too_many_values");
});
