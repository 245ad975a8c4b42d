/** Bodies as other engines' routers send them on, recorded from the packages that are named. */
import { expect, test } from "vitest";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user", content: "Hi" }];
const common = {
  ...{ stream: false, no_stop_trim: false, ignore_eos: false, skip_special_tokens: true },
  return_hidden_states: false,
};
const chat = {
  ...{ model: "toy", messages, logprobs: false, continue_final_message: false, ...common },
  ...{ separate_reasoning: true, stream_reasoning: true },
};

test.each([
  ["sglang-router 0.3.2", "/v1/chat/completions", { ...chat, max_completion_tokens: 5 }],
  [
    "vllm-router 0.1.17",
    "/v1/chat/completions",
    { ...chat, max_tokens: 5, include_reasoning: true },
  ],
  [
    "both",
    "/v1/completions",
    { model: "toy", prompt: "Hi", max_tokens: 5, echo: false, ...common },
  ],
])("%s: %s", async (_, path, body) => {
  const { post } = await serveToy();
  const answer = await post(path, body);
  expect(answer.status).toBe(200);
  expect((await json(answer)).choices).toHaveLength(1);
});

test.each([
  ["no_stop_trim", true],
  ["separate_reasoning", false],
  ["stream_reasoning", false],
  ["return_hidden_states", true],
])("%s: %s is refused by name", async (field, value) => {
  const { post } = await serveToy();
  const answer = await post("/v1/chat/completions", { model: "toy", messages, [field]: value });
  expect(answer.status).toBe(400);
  const { error } = await json(answer);
  expect(error).toMatchObject({ param: field });
  expect(error?.message).toContain("is not supported in this version");
});
