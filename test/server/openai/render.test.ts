/** vLLM's routes that turn a request into the tokens of its prompt. */
import { expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user", content: "Hi" }];

test("a conversation has the tokens that its answer would be made from", async () => {
  const { post, model } = await serveToy();
  const body = { model: "toy", messages, max_tokens: 5, seed: 7, stop: ["x"], cache_salt: "s" };
  const rendered = await json(post("/v1/chat/completions/render", body));
  const { promptTokenIds } = await model.chatPrompt(messages);
  expect(rendered).toMatchObject({
    ...{ token_ids: promptTokenIds, features: null, model: "toy", stream: false, priority: 0 },
    ...{ cache_salt: "s", request_id: expect.stringMatching(/^chatcmpl-/) },
    sampling_params: { max_tokens: 5, seed: 7, stop: ["x"], n: 1 },
  });
  expect(model.requests).toEqual([]);
});

test("completions have an object for each prompt", async () => {
  const { post } = await serveToy();
  const rendered: unknown = await json(
    post("/v1/completions/render", { model: "toy", prompt: ["a", "bc"], stream: true }),
  );
  expect(rendered).toMatchObject([
    { token_ids: [97], stream: true, sampling_params: { max_tokens: 16 } },
    { token_ids: [98, 99], stream: true },
  ]);
});

test.each([
  ["/v1/chat/completions/render", { model: "toy", messages: [] }, 400],
  ["/v1/chat/completions/render", { model: "another", messages }, 404],
  ["/v1/completions/render", { model: "toy", prompt: "a".repeat(5000) }, 400],
  ["/v1/completions/render", { model: "toy", prompt: "a", temperature: -1 }, 400],
])("%s refuses what its route refuses", async (path, body, status) => {
  const { post } = await serveToy();
  expect((await post(path, body)).status).toBe(status);
});
