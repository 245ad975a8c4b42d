/** Adapters of other engines: their blocks, their requests, and their comings and goings. */
import { afterEach, expect, test } from "vitest";
import { serveForeign } from "../../support/foreign-server.ts";
import { closeForeignWorkers, foreignWorker } from "../../support/foreign-worker.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";

closeRouters();
closeForeignWorkers();
const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of closing.splice(0).reverse()) await each.close();
});

const PATH = "/v1/completions";
const ANSWER = { choices: [], usage: { prompt_tokens: 64, completion_tokens: 1 } };

const cards = (owner: string, adapters: readonly string[]) => [
  { id: "base", owned_by: owner, parent: null },
  ...adapters.map((id) => ({ id, owned_by: owner, parent: "base" })),
];

/** A vLLM whose list of models changes. */
async function changingEngine(adapters: readonly string[]) {
  const answers = (loaded: readonly string[]) => ({
    ...{ "/health": 200, [PATH]: ANSWER },
    "/v1/models": { object: "list", data: cards("vllm", loaded) },
  });
  const server = await serveForeign(answers(adapters));
  closing.push(server);
  const count = () => server.asked.filter(([path]) => path === PATH).length;
  return { ...server, count, load: (loaded: readonly string[]) => server.answer(answers(loaded)) };
}

test("[CL153] a request for an adapter goes to workers that serve it, as long as they do", async () => {
  const [one, two] = [await changingEngine(["tuned"]), await changingEngine([])];
  const { post, get } = clientsOf(await routeTo([two.url, one.url]));
  const ask = async (model: string) =>
    (await post(PATH, { model, prompt: "hello", max_tokens: 1 })).status;
  for (let turn = 0; turn < 5; turn++) expect(await ask("tuned")).toBe(200);
  expect([one.count(), two.count()]).toEqual([5, 0]);
  expect(await ask("later")).toBe(404);
  // One is loaded and one unloaded while the engine runs.
  one.load(["later"]);
  await expect.poll(() => ask("later"), { timeout: 15_000, interval: 100 }).toBe(200);
  expect(await ask("tuned")).toBe(404);
  const { data } = (await (await get("/v1/models")).json()) as { data: { id: string }[] };
  expect(data.map(({ id }) => id).sort()).toEqual(["base", "later"]);
  expect(two.count()).toBe(0);
}, 30_000);

/** An SGLang that keeps the bodies that it was sent. */
async function sglang(adapters: readonly string[]) {
  const bodies: Record<string, unknown>[] = [];
  const { url } = await foreignWorker({
    owner: "sglang",
    models: cards("sglang", adapters),
    pages: { "/server_info": '{"page_size":16,"version":"0.5.18"}' },
    answers: {
      [PATH]: (body) => {
        bodies.push(body);
        return ANSWER;
      },
    },
  });
  return { url, bodies };
}

test("[CL153] SGLang is told the adapter in the field that it reads", async () => {
  const { url, bodies } = await sglang(["tuned"]);
  const { post } = clientsOf(await routeTo([url]));
  const sent = [
    { model: "tuned", prompt: "a" },
    { model: "tuned", prompt: "a", lora_path: null },
    { model: "tuned", prompt: "a", lora_path: "own" },
    { model: "base", prompt: "a" },
    { model: "base:tuned", prompt: "a" },
  ];
  for (const body of sent) expect((await post(PATH, body)).status).toBe(200);
  expect(bodies.map(({ lora_path }) => lora_path)).toEqual([
    "tuned",
    "tuned",
    "own",
    undefined,
    undefined,
  ]);
  for (const model of ["base:other", "other:tuned", ":tuned", "base:"]) {
    expect((await post(PATH, { model, prompt: "a" })).status).toBe(404);
  }
});
