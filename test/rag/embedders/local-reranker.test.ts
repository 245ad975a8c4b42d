import { describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { LocalReranker } from "#rag/embedders";
import { LAYOUT_DEVICES } from "./devices.ts";
import { layoutFolder, recordedLayout, rerankerFolder } from "./recorded-layout.ts";

const engine = {
  ...({ device: "reference", dtype: "float32", engineThread: false } as const),
  onWarning: () => {},
};

const LAYOUTS = ["bert", "xlm-roberta", "modernbert"];
const cases = LAYOUT_DEVICES.flatMap((device) =>
  LAYOUTS.flatMap((layout) =>
    Object.entries(recordedLayout(layout).rerankers).map(
      ([title, recorded]) => [`${device}, ${layout}: ${title}`, device, layout, recorded] as const,
    ),
  ),
);

describe("[RG66] scores are those of sentence-transformers' CrossEncoder", () => {
  test.each(cases)("%s", async (_, device, layout, recorded) => {
    const { pairs } = recordedLayout(layout);
    const queries = pairs.map(([query]) => query);
    const texts = pairs.map(([, text]) => text);
    const folder = rerankerFolder(layout, recorded);
    await using llm = await LLM.load(folder, { ...engine, device });
    const results = await llm.score(queries, texts);
    for (const [place, { score }] of results.entries()) {
      expect(Math.abs(score - (recorded.scores[place] ?? Number.NaN))).toBeLessThan(1e-4);
    }
  });
});

function bertReranker(title: string): string {
  const recorded = recordedLayout("bert").rerankers[title];
  if (recorded === undefined) throw new Error(`${title} was not recorded`);
  return rerankerFolder("bert", recorded);
}

describe("[RG67] a reranker", () => {
  const [[query, text] = ["", ""]] = recordedLayout("bert").pairs;
  const texts = [text, "A short one", ""];

  test("scores from 0 to 1, in the order of the model's own numbers", async () => {
    await using sigmoid = await LocalReranker.open(bertReranker("scores of 0 to 1"), engine);
    await using logits = await LocalReranker.open(bertReranker("logits"), engine);
    const scores = await sigmoid.score(query, texts);
    expect(scores).toHaveLength(3);
    for (const [place, score] of (await logits.score(query, texts)).entries()) {
      expect(score).toBeCloseTo(scores[place] ?? Number.NaN, 6);
    }
  });

  test("is no model without a head for pairs, and says what to choose", async () => {
    const { files } = recordedLayout("bert").embedders.MiniLM ?? { files: {} };
    const folder = layoutFolder("bert", files);
    await expect(LocalReranker.open(folder, engine)).rejects.toMatchObject({
      code: "UNSUPPORTED_MODEL",
      message: expect.stringContaining("cross-encoder/ms-marco-MiniLM-L6-v2"),
    });
  });

  test("makes no vectors", async () => {
    await using llm = await LLM.load(bertReranker("logits"), engine);
    expect(llm.info).toMatchObject({ embedding: null, pairScoring: { activation: "none" } });
    await expect(llm.embed(["a"])).rejects.toMatchObject({
      code: "UNSUPPORTED_MODEL",
      message: expect.stringContaining("/v1/rerank"),
    });
  });

  test("cuts pairs at tokensMax, and refuses one without room for them", async () => {
    await using llm = await LLM.load(bertReranker("scores of 0 to 1"), engine);
    const long = "many words ".repeat(50);
    const [whole, cut] = [
      await llm.score(query, [long]),
      await llm.score(query, [long], { tokensMax: 20 }),
    ];
    expect([whole[0]?.tokens, cut[0]?.tokens]).toEqual([64, 20]);
    await expect(llm.score(query, [long], { tokensMax: 2 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("at least 3"),
    });
  });

  test("takes one query, or as many as texts", async () => {
    await using llm = await LLM.load(bertReranker("scores of 0 to 1"), engine);
    const each = await llm.score([query, "blocks"], texts.slice(0, 2));
    expect(each[0]).toEqual((await llm.score(query, [text]))[0]);
    expect(await llm.score(query, [])).toEqual([]);
    await expect(llm.score([query, query], texts)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("as many as the 3 texts"),
    });
  });

  test("whose activation is unknown is refused by name", async () => {
    const folder = rerankerFolder("bert", {
      config: { sbert_ce_default_activation_function: "custom.Softplus" },
      scores: [],
    });
    await expect(LLM.load(folder, engine)).rejects.toMatchObject({
      code: "UNSUPPORTED_MODEL",
      message: expect.stringContaining("custom.Softplus"),
    });
  });
});

test("[RG68] a model that embeds scores texts by the cosine of their vectors", async () => {
  const { queries, documents, embedders } = recordedLayout("bert");
  const { files, queries: vectors } = embedders.MiniLM ?? { files: {}, queries: [] };
  await using llm = await LLM.load(layoutFolder("bert", files), engine);
  const [query = ""] = queries;
  const results = await llm.score(query, documents);
  const expected = embedders.MiniLM?.documents.map((document) =>
    document.reduce((sum, value, i) => sum + value * (vectors[0]?.[i] ?? Number.NaN), 0),
  );
  for (const [place, { score }] of results.entries()) {
    expect(score).toBeCloseTo(expected?.[place] ?? Number.NaN, 4);
  }
  // The query is embedded once.
  const own = await llm.embed([query]);
  expect(results[1]?.tokens).toBe(7);
  expect(results[0]?.tokens).toBe(17 + (own[0]?.promptTokenIds.length ?? 0));
});
