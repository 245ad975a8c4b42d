import { expect, test } from "vitest";
import { chatPromptTokens, completionPromptTokens } from "#server";
import { ToyModel } from "../../support/toy-model.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const messages = [{ role: "user", content: "hello" }];
const signal = new AbortController().signal;

test("a request's cache salt reaches what encodes its prompt, at a worker and at a router", async () => {
  const { model, post } = await serveToy();
  await post("/v1/chat/completions", { messages, cache_salt: "one", max_tokens: 1 });
  await chatPromptTokens(model, { messages, cache_salt: "two" }, signal);
  await chatPromptTokens(model, { messages }, signal);
  expect(model.chats.map(({ options }) => options.cacheSalt)).toEqual(["one", "two", undefined]);

  const salts: unknown[] = [];
  const { codec } = new ToyModel();
  if (codec === null) throw new Error("The toy has a codec");
  const told: typeof codec = {
    ...codec,
    encodeAll: (texts, options) => {
      salts.push(options?.cacheSalt);
      return codec.encodeAll(texts, options);
    },
  };
  const body = { prompt: "hello", cache_salt: "three" };
  await completionPromptTokens({ ...model, codec: told } as typeof model, body, signal);
  expect(salts).toEqual(["three"]);
});
