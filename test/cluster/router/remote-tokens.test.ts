import { describe, expect, test } from "vitest";
import {
  closeForeignWorkers,
  type ForeignDialect,
  foreignWorker,
  SILENT,
} from "../../support/foreign-worker.ts";
import { clientsOf, closeRouters, routeTo } from "../../support/router-fleet.ts";

closeRouters();
closeForeignWorkers();

const messages = [{ role: "user", content: "hello" }];
const chat = { model: "m", messages, temperature: 0.3 };
const RENDER = "/v1/chat/completions/render";
const IDS = [7, 8, 9, 10];

const vllm: Pick<ForeignDialect, "owner" | "pages"> = {
  owner: "vllm",
  pages: {
    "/version": '{"version":"0.26.0"}',
    "/metrics": '\nvllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1\n',
  },
};
const sglang: Pick<ForeignDialect, "owner" | "pages"> = {
  owner: "sglang",
  pages: { "/server_info": '{"page_size":1,"max_total_num_tokens":9999,"version":"0.5.18"}' },
};

interface Explained {
  readonly tokens_from: string;
  readonly prompt_tokens: number;
}

async function explained(dialect: ForeignDialect, body: object = chat) {
  const worker = await foreignWorker(dialect);
  const router = await routeTo([worker.url]);
  const { post } = clientsOf(router);
  const explain = async (of = body) =>
    (await (await post("/route/explain", of)).json()) as Explained;
  return { worker, post, explain, first: await explain() };
}

describe("how engines are asked", () => {
  test("[CL144] vLLM renders chats and completions", async () => {
    const { worker, explain, first } = await explained({
      ...vllm,
      answers: {
        [RENDER]: () => ({ request_id: "x", token_ids: IDS, features: null }),
        "/v1/completions/render": () => [{ token_ids: [1, 2] }],
      },
    });
    expect(first).toMatchObject({ tokens_from: "worker", prompt_tokens: 4 });
    expect(worker.questions).toEqual([{ model: "m", messages }]);
    expect(await explain({ model: "m", prompt: "x" } as never)).toMatchObject({ prompt_tokens: 2 });
    expect(worker.asked).toEqual([RENDER, "/v1/completions/render"]);
  });

  test("[CL144] where rendering is off, vLLM's /tokenize; the missing route is asked once", async () => {
    const { worker, explain, first } = await explained({
      ...vllm,
      answers: { "/tokenize": () => ({ tokens: IDS, count: 4, max_model_len: 99 }) },
    });
    expect(first).toMatchObject({ tokens_from: "worker", prompt_tokens: 4 });
    await explain({ ...chat, messages: [{ role: "user", content: "other" }] });
    expect(worker.asked).toEqual([RENDER, "/tokenize", "/tokenize"]);
  });

  test("[CL144] SGLang's /tokenize takes chats", async () => {
    const { worker, first } = await explained({
      ...sglang,
      answers: {
        "/tokenize": (body) => (body.messages === undefined ? 400 : { tokens: IDS, count: 4 }),
      },
    });
    expect(first).toMatchObject({ tokens_from: "worker", prompt_tokens: 4 });
    expect(worker.asked).toEqual(["/tokenize"]);
  });

  test("[CL144] an older SGLang takes no chats: their text stands for them, and it is left alone", async () => {
    const { worker, post, explain, first } = await explained({
      ...sglang,
      answers: {
        "/tokenize": (body) => (typeof body.prompt === "string" ? { tokens: IDS, count: 4 } : 422),
      },
    });
    expect(first.tokens_from).toBe("text");
    for (let turn = 0; turn < 6; turn++) {
      const content = `turn ${turn}`;
      const { tokens_from: from } = await explain({
        ...chat,
        messages: [{ role: "user", content }],
      });
      expect(from).toBe("text");
    }
    expect(worker.asked).toHaveLength(3);
    // What was sent there as text is found by it, though the worker announces its cache in tokens.
    const long = { ...chat, messages: [{ role: "user", content: "the same text. ".repeat(40) }] };
    expect((await post("/v1/chat/completions", long)).status).toBe(200);
    const answer = await post("/route/explain", long);
    const { workers } = (await answer.json()) as { workers: { cached_tokens: number[] }[] };
    expect(workers[0]?.cached_tokens.at(-1)).toBeGreaterThan(100);
    expect(await explain({ model: "m", prompt: "x" } as never)).toMatchObject({
      ...{ tokens_from: "worker", prompt_tokens: 4 },
    });
  });

  test("[CL144] TensorRT-LLM has no such route: texts, after one question", async () => {
    const { worker, explain, first } = await explained({ owner: "tensorrt_llm", answers: {} });
    expect(first.tokens_from).toBe("text");
    await explain();
    expect(worker.asked).toEqual(["/tokenize"]);
  });

  test("[CL144] a prompt is asked for once, also by requests that come at once", async () => {
    const { worker, post } = await explained({
      ...vllm,
      answers: { [RENDER]: () => ({ token_ids: IDS }) },
    });
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, seed) =>
        post("/v1/chat/completions", { ...chat, messages: [{ role: "user", content: "b" }], seed }),
      ),
    );
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(worker.asked.filter((path) => path === RENDER)).toHaveLength(2);
  });
});

describe("hostile answers", () => {
  test.each([
    ["text", "no ids"],
    ["a number", 500],
    ["ids that are none", { token_ids: [1, -1, "x"], tokens: [2 ** 40] }],
    ["nested lists", { token_ids: [[1, 2]], tokens: [[1]] }],
    ["nothing", { token_ids: [], tokens: [] }],
    ["null", null],
  ])("[CL144] %s: the prompt's text stands for it", async (_name, answer) => {
    const { first, post } = await explained({
      ...vllm,
      answers: { [RENDER]: () => answer ?? 200, "/tokenize": () => answer ?? 200 },
    });
    expect(first.tokens_from).toBe("text");
    expect((await post("/v1/chat/completions", chat)).status).toBe(200);
  });

  test("[CL144] no answer: requests go on after the deadline, and later ones do not wait", async () => {
    const { worker, explain, first } = await explained({
      ...vllm,
      answers: { [RENDER]: () => SILENT, "/tokenize": () => SILENT },
    });
    expect(first.tokens_from).toBe("text");
    for (let turn = 0; turn < 6; turn++) {
      const content = `turn ${turn}`;
      await explain({ ...chat, messages: [{ role: "user", content }] });
    }
    expect(worker.asked).toEqual([RENDER]);
  }, 30_000);
});

describe("adapters", () => {
  test("[CL145] a model whose card has a parent is an adapter: its prompts are others", async () => {
    const worker = await foreignWorker({
      owner: "vllm",
      models: [
        { id: "tuned", owned_by: "vllm", parent: "m" },
        { id: "m", owned_by: "vllm", parent: null },
      ],
      answers: { [RENDER]: () => ({ token_ids: Array.from({ length: 64 }, (_, at) => at) }) },
    });
    const router = await routeTo([worker.url]);
    const { post, get } = clientsOf(router);
    const cachedOf = async (model: string) => {
      const answer = await post("/route/explain", { ...chat, model });
      const { workers } = (await answer.json()) as { workers: { cached_tokens: number[] }[] };
      return workers[0]?.cached_tokens.at(-1);
    };
    expect(await cachedOf("tuned")).toBe(0);
    expect((await post("/v1/chat/completions", { ...chat, model: "tuned" })).status).toBe(200);
    expect(await cachedOf("tuned")).toBe(64);
    expect(await cachedOf("m")).toBe(0);
    const { data } = (await (await get("/v1/models")).json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id).sort()).toEqual(["m", "tuned"]);
  });
});
