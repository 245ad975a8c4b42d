import { afterEach, describe, expect, test, vi } from "vitest";
import { LLM } from "#engine";
import { type RunningServer, startServer } from "#server";
import {
  layoutFolder,
  recordedLayout,
  rerankerFolder,
} from "../../rag/embedders/recorded-layout.ts";
import { json } from "../../support/json.ts";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

const PATHS = ["/v1/rerank", "/rerank", "/v2/rerank"];
const query = "abc";
const documents = ["xyz", "abcx", { text: "abc" }, "abcx"];

describe.each(PATHS)("%s", (path) => {
  test("[RG70] ranks documents by their scores, equal ones in their order", async () => {
    const { post } = await serveToy();
    const answer = await json(post(path, { model: "toy", query, documents }));
    expect(answer).toMatchObject({ id: expect.stringMatching(/^rerank-/), model: "toy" });
    expect(answer.results).toMatchObject([
      { index: 2, relevance_score: 1 },
      { index: 1, relevance_score: 0.75 },
      { index: 3, relevance_score: 0.75 },
      { index: 0, relevance_score: 0 },
    ]);
    expect(answer.usage).toEqual({ prompt_tokens: 26, total_tokens: 26 });
  });

  test("[RG70] top_n keeps the best, 0 keeps all", async () => {
    const { post } = await serveToy();
    for (const [top_n, count] of [
      [2, 2],
      [0, 4],
      [9, 4],
    ]) {
      const answer = await json(post(path, { query, documents, top_n }));
      expect(answer.results).toHaveLength(count ?? Number.NaN);
    }
  });

  test("[RG70] documents are in the answer as the request or the form says", async () => {
    const { post } = await serveToy();
    const form = path === "/v2/rerank" ? undefined : { text: "abc" };
    const cases = [
      [{}, form],
      [{ return_documents: true }, { text: "abc" }],
      [{ return_documents: false }, undefined],
    ] as const;
    for (const [fields, document] of cases) {
      const answer = await json(post(path, { query, documents, ...fields }));
      expect(answer.results?.[0]?.document).toEqual(document);
    }
  });

  test.for([
    ["no query", { documents }, "query"],
    ["no document", { query, documents: [] }, "documents"],
    ["too many documents", { query, documents: Array(2049).fill("a") }, "documents"],
    ["a document without text", { query, documents: [{ title: "a" }] }, "documents[0]"],
    ["a negative top_n", { query, documents, top_n: -1 }, "top_n"],
    ["fields to rank by", { query, documents, rank_fields: ["a"] }, "rank_fields"],
    ["an unknown field", { query, documents, stream: true }, "stream"],
  ] as const)("[RG70] %s is a 400 that names the field", async ([, body, param]) => {
    const { post } = await serveToy();
    const answer = await post(path, body);
    expect(answer.status).toBe(400);
    expect((await json(answer)).error?.param).toBe(param);
  });

  test("[RG70] an API key is needed where the server has one", async () => {
    const { post } = await serveToy({}, { apiKey: ["secret"] });
    expect((await post(path, { query, documents })).status).toBe(401);
    const headers = { authorization: "Bearer secret" };
    expect((await post(path, { query, documents }, headers)).status).toBe(200);
  });
});

describe.each(["/v1/score", "/score"])("%s", (path) => {
  test("[RG71] scores one with one, one with many, and many one by one", async () => {
    const { post } = await serveToy();
    for (const [text_1, text_2, scores] of [
      ["abc", "ab", [1]],
      ["abc", ["ab", "xy"], [1, 0]],
      [["abc"], ["ab", "xy"], [1, 0]],
      [
        ["abc", { text: "xy" }],
        ["ax", "xy"],
        [0.5, 1],
      ],
    ] as const) {
      const answer = await json(post(path, { text_1, text_2 }));
      expect(answer).toMatchObject({ id: expect.stringMatching(/^score-/), object: "list" });
      expect(answer.data).toEqual(
        scores.map((score, index) => ({ index, object: "score", score })),
      );
    }
  });

  test.for([
    ["other numbers of texts", { text_1: ["a", "b"], text_2: ["a"] }, "text_1"],
    ["no second text", { text_1: "a" }, "text_2"],
    ["token ids", { text_1: "a", text_2: [5] }, "text_2"],
    ["an unknown field", { text_1: "a", text_2: "b", top_n: 1 }, "top_n"],
  ] as const)("[RG71] %s is a 400 that names the field", async ([, body, param]) => {
    const { post } = await serveToy();
    const answer = await post(path, body);
    expect(answer.status).toBe(400);
    expect((await json(answer)).error?.param).toBe(param);
  });
});

test("[RG71] options of a request reach the model", async () => {
  const { post, model } = await serveToy();
  const score = vi.spyOn(model, "score");
  const body = { text_1: "a", text_2: ["b"], truncate_prompt_tokens: 9, use_activation: false };
  await post("/v1/score", body);
  expect(score.mock.lastCall).toMatchObject([["a"], ["b"], { tokensMax: 9, raw: true }]);
  await post("/v1/score", { ...body, truncate_prompt_tokens: -1, use_activation: null });
  expect(Object.keys(score.mock.lastCall?.at(2) ?? {})).toEqual(["signal"]);
});

describe("a served model", () => {
  const engine = {
    ...({ device: "reference", dtype: "float32", engineThread: false } as const),
    onWarning: () => {},
  };
  const open: (LLM | RunningServer)[] = [];
  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.close();
  });

  async function serve(folder: string) {
    const llm = await LLM.load(folder, engine);
    const server = await startServer(llm, { port: 0, logLevel: "silent", shutdownTimeoutMs: 0 });
    open.push(llm, server);
    return (path: string, body: object) =>
      fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
  }

  test("[RG70] a cross-encoder's scores are those of its authors' library", async () => {
    const { pairs, rerankers } = recordedLayout("bert");
    const recorded = rerankers["scores of 0 to 1"] ?? { config: {}, scores: [] };
    const post = await serve(rerankerFolder("bert", recorded));
    const [[first, text] = ["", ""]] = pairs;
    const answer = await json(post("/v1/rerank", { query: first, documents: [text] }));
    const hit = Number(answer.results?.[0]?.relevance_score);
    expect(hit).toBeCloseTo(recorded.scores[0] ?? Number.NaN, 4);
    const raw = { text_1: first, text_2: text, use_activation: false };
    const logit = Number((await json(post("/v1/score", raw))).data?.[0]?.score);
    expect(logit).toBeCloseTo(rerankers.logits?.scores[0] ?? Number.NaN, 4);
    const refused = await post("/v1/embeddings", { input: "a" });
    expect(refused.status).toBe(400);
    expect((await json(refused)).error).toMatchObject({ code: "unsupported_model" });
  });

  test("[RG70] a model that neither reranks nor embeds is refused, with what to serve", async () => {
    const post = await serve(layoutFolder("qwen3", { "config.json": tiedQwen() }));
    for (const [path, body] of [
      ["/v1/rerank", { query, documents }],
      ["/v1/score", { text_1: "a", text_2: "b" }],
    ] as const) {
      const answer = await post(path, body);
      expect(answer.status).toBe(400);
      const { error } = await json(answer);
      expect(error?.code).toBe("unsupported_model");
      expect(error?.message).toContain("cross-encoder/ms-marco-MiniLM-L6-v2");
    }
  });
});

/** The recorded decoder's configuration with a table that is the output layer, too. */
function tiedQwen(): object {
  const fields = { hidden_size: 16, intermediate_size: 32, num_hidden_layers: 2, head_dim: 16 };
  const heads = { num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64 };
  return { model_type: "qwen3", vocab_size: 600, tie_word_embeddings: true, ...fields, ...heads };
}
