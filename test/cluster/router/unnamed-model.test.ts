import { expect, test } from "vitest";
import { RELAYED_PATHS } from "../../../src/cluster/router/relay-route.ts";
import { closeForeignWorkers, foreignWorker } from "../../support/foreign-worker.ts";
import { clientsOf, closeRouters, routeTo, routeToys } from "../../support/router-fleet.ts";
import { closeToyServers } from "../../support/toy-server.ts";

closeRouters();
closeToyServers();
closeForeignWorkers();

const BODIES: Readonly<Record<(typeof RELAYED_PATHS)[number], object>> = {
  "/v1/chat/completions": { messages: [{ role: "user", content: "hi" }] },
  "/v1/completions": { prompt: "hi" },
  "/v1/messages": { messages: [{ role: "user", content: "hi" }], max_tokens: 4 },
  "/v1/messages/count_tokens": { messages: [{ role: "user", content: "hi" }] },
  "/v1/responses": { input: "hi" },
  "/v1/embeddings": { input: "hi" },
  "/v1/rerank": { query: "hi", documents: ["hello"] },
  "/rerank": { query: "hi", documents: ["hello"] },
  "/v2/rerank": { query: "hi", documents: ["hello"] },
  "/v1/score": { text_1: "hi", text_2: "hello" },
  "/score": { text_1: "hi", text_2: "hello" },
  "/v1/chat/completions/render": { messages: [{ role: "user", content: "hi" }] },
  "/v1/completions/render": { prompt: "hi" },
  "/tokenize": { prompt: "hi" },
  "/detokenize": { tokens: [104] },
  "/api/chat": { messages: [{ role: "user", content: "hi" }] },
  "/api/generate": { prompt: "hi" },
  "/api/embed": { input: "hi" },
  "/api/embeddings": { prompt: "hi" },
  "/api/show": {},
};
const message = expect.stringContaining("`a`, `b` are served");
const REFUSED = { error: { code: "invalid_argument", param: "model", message } };
/** Anthropic's errors name no field but in their message. */
const REFUSED_MESSAGE = { type: "error", error: { type: "invalid_request_error", message } };
const REFUSED_LINE = { error: message };

function refusalOf(path: string): object {
  if (path.startsWith("/api/")) return REFUSED_LINE;
  return path.startsWith("/v1/messages") ? REFUSED_MESSAGE : REFUSED;
}

test.each(RELAYED_PATHS)(
  "[CL151] %s without a model: the one model, or a refusal",
  async (path) => {
    const one = await routeToys([{}, {}]);
    for (const model of [{}, { model: null }]) {
      expect((await one.post(path, { ...BODIES[path], ...model })).status).toBe(200);
    }
    const several = await routeToys([{ defaultName: "a" }, { defaultName: "b" }]);
    for (const model of [{}, { model: null }]) {
      const refused = await several.post(path, { ...BODIES[path], ...model });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject(refusalOf(path));
    }
    expect((await several.post(path, { ...BODIES[path], model: "b" })).status).toBe(200);
    // Another type is refused by a worker, in its own words.
    expect((await several.post(path, { ...BODIES[path], model: 5 })).status).toBe(400);
  },
);

test("[CL151] an explanation without a model is of the one model, or refused", async () => {
  const one = await routeToys([{}]);
  expect(await (await one.get("/route/explain?prompt=x")).json()).toMatchObject({ model: "toy" });
  const several = await routeToys([{ defaultName: "a" }, { defaultName: "b" }]);
  for (const answer of [
    await several.get("/route/explain?prompt=x"),
    await several.post("/route/explain", { prompt: "x" }),
  ]) {
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject(REFUSED);
  }
});

test("[CL151] workers of other engines are sent the name, adapters apart", async () => {
  const bodies: Record<string, unknown>[] = [];
  const answer = (body: Record<string, unknown>) => {
    bodies.push(body);
    return { choices: [] };
  };
  const serving = (...models: object[]) =>
    foreignWorker({ owner: "vllm", models, answers: { "/v1/completions": answer } });
  const base = { id: "base", owned_by: "vllm" };
  const adapter = { id: "tuned", owned_by: "vllm", parent: "base" };
  // "tuned" stands in every list, and is no model for requests that name none.
  const urls = [(await serving(base, adapter)).url, (await serving(adapter, base)).url];
  const { post } = clientsOf(await routeTo(urls));
  for (const body of [{ prompt: "x", seed: 1 }, {}, { prompt: "x", model: null }]) {
    expect((await post("/v1/completions", body)).status).toBe(200);
  }
  expect(bodies).toEqual([
    { model: "base", prompt: "x", seed: 1 },
    { model: "base" },
    { model: "base", prompt: "x" },
  ]);
});

test("[CL151] a worker that answers to the others' name, too, is of the same model", async () => {
  const { post } = await routeToys([{ defaultName: "a" }]);
  expect((await post("/v1/completions", { prompt: "x" })).status).toBe(200);
  const models = [
    { id: "b", owned_by: "x" },
    { id: "a", owned_by: "x" },
  ];
  const answers = { "/v1/completions": () => ({ choices: [] }) };
  const both = await foreignWorker({ owner: "x", models, answers });
  const only = await foreignWorker({ owner: "x", models: models.slice(1), answers });
  const { post: ask } = clientsOf(await routeTo([both.url, only.url]));
  expect((await ask("/v1/completions", { prompt: "x" })).status).toBe(200);
});
