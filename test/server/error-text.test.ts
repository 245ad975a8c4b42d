import { expect, test } from "vitest";
import { fieldText, messageText } from "../../src/server/error-text.ts";
import { json } from "../support/json.ts";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

test("a message keeps its beginning and its remedy, whatever a client wrote into the middle", () => {
  const text = messageText(`Cannot use model: ${"x".repeat(100_000)}; ask for pocket`);
  expect(text).toHaveLength(500);
  expect(text).toMatch(/^Cannot use model: x+…x+; ask for pocket$/);
});

test("control characters and halves of characters are harmless", () => {
  expect(messageText("a\r\nb\u0000\u001b[2J\ud800")).toBe("a  b\\u0000\\u001b[2J\ufffd");
  expect(fieldText("k".repeat(1000))).toHaveLength(120);
});

test.each([
  ["a model's name", "/v1/completions", { prompt: "a", model: "m".repeat(50_000) }],
  ["an unknown field", "/v1/completions", { prompt: "a", [`_${"k".repeat(50_000)}`]: 1 }],
  ["a value", "/v1/completions", { prompt: "a", response_format: "r".repeat(50_000) }],
  ["a path", `/${"p/".repeat(4_000)}`, {}],
])("an answer does not send back %s of 50,000 characters", async (_what, path, body) => {
  const { post } = await serveToy();
  const answer = await post(path, body);
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(answer.status).toBeLessThan(500);
  expect((await json(answer)).error?.message?.length).toBeLessThanOrEqual(500);
});
