import { expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

test("a text becomes ids, and ids become the text", async () => {
  const { post } = await serveToy();
  const tokens = await json(post("/tokenize", { prompt: "hé", return_token_strs: true }));
  expect(tokens).toEqual({
    count: 3,
    max_model_len: 4096,
    tokens: [104, 195, 169],
    token_strs: ["h", "bytes:\\xc3", "bytes:\\xa9"],
  });
  expect(await json(post("/detokenize", { tokens: tokens.tokens }))).toEqual({ prompt: "hé" });
});

test("messages are rendered by the chat template first", async () => {
  const { post } = await serveToy();
  const messages = [{ role: "user", content: "hi" }];
  const tokens = await json(post("/tokenize", { messages }));
  const { prompt } = await json(post("/detokenize", { tokens: tokens.tokens }));
  expect(prompt).toBe("user: hi\nassistant:");
  const open = await json(post("/tokenize", { messages, add_generation_prompt: false }));
  expect(open.count).toBe("user: hi".length);
});

test.for([
  ["neither prompt nor messages", "/tokenize", {}],
  ["both", "/tokenize", { prompt: "a", messages: [{ role: "user", content: "b" }] }],
  ["an id beyond the vocabulary", "/detokenize", { tokens: [257] }],
  ["text as ids", "/detokenize", { tokens: "abc" }],
] as const)("%s is a 400", async ([, path, body]) => {
  const { post } = await serveToy();
  expect((await post(path, body)).status).toBe(400);
});

test("a model without a tokenizer says so", async () => {
  const { post } = await serveToy({ hasTokenizer: false });
  const answer = await post("/tokenize", { prompt: "a" });
  expect(answer.status).toBe(400);
  expect((await json(answer)).error?.code).toBe("tokenizer_missing");
});
