import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { LLM } from "#engine";
import { type AskEvent, type FoundChunk, Rag, type RagOptions, type Reranker } from "#rag";
import { fitting } from "../../../src/rag/service/retriever.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { until } from "../../support/until.ts";
import { WordEmbedder, wordChunk } from "../../support/word-embedder.ts";

const facts = [
  "The Orlen bridge was built in 1931. Its architect was Tamsin Vorle.",
  "The Kesset bridge is 412 metres long. It was designed by Joren Hask.",
  "Sarvik has a population of 18,240. Its mayor is Ilka Brand.",
  "The Morrow museum opened in 1987 and has 36 rooms.",
];
const embedder = new WordEmbedder();
let llm: LLM;

beforeAll(async () => {
  llm = await LLM.load(undefined, { onWarning: () => {} });
});
afterAll(() => llm.close());

/** Corpora `default`, and `other` with the last fact alone. */
async function filledStore(): Promise<MemoryStore> {
  const store = new MemoryStore();
  const chunks = facts.map((text, place) =>
    wordChunk(`fact-${place}.md`, text, { attributes: { number: place } }),
  );
  for (const [name, some] of [
    ["default", chunks],
    ["other", chunks.slice(-1)],
  ] as const) {
    await store.create({ name, dimensions: 256, embedder: embedder.fingerprint });
    await store.upsert(name, some);
  }
  return store;
}

async function opened(more: Partial<RagOptions> = {}) {
  const store = await filledStore();
  const rag = await Rag.open({ store, embedder, llm, ...more });
  onTestFinished(() => rag.close());
  return { rag, store };
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const names = (found: readonly FoundChunk[]) => found.map(({ chunk }) => chunk.documentId);

describe("Rag", () => {
  it("[RG91] answers with the question, sources, text and citations", async () => {
    const { rag } = await opened();
    const events = await all(rag.ask("What is the population of Sarvik?"));
    expect(events[0]).toEqual({
      ...{ type: "question", text: "What is the population of Sarvik?", rewritten: false },
    });
    const types = events.map(({ type }) => type);
    expect(types.filter((type, place) => type !== types[place - 1])).toEqual([
      "question",
      "sources",
      "text",
      "citation",
      "answer",
    ]);
    const answer = await rag.answer("What is the population of Sarvik?");
    expect(answer.text).toBe(`18,240 [${answer.citations[0]?.number}]`);
    expect(answer.usage.cachedTokens).toBeGreaterThan(0);
  });

  it("[RG90] answers a follow-up question as one that stands alone", async () => {
    const { rag } = await opened();
    const turns = [{ question: "What is the population of Sarvik?", answer: "18,240 [1]" }];
    const { question, text } = await rag.answer("And who is its mayor?", { turns });
    expect(question).toBe("Who is Sarvik's mayor?");
    expect(text).toMatch(/Ilka Brand.* \[\d\]$/);
  });

  it("[RG89] refuses what nothing answers, without the model", async () => {
    const { rag } = await opened();
    const answer = await rag.answer("Which vitamins do oranges contain?");
    expect(answer).toMatchObject({ refusal: "no_sources", sources: [], text: /do not say/ });
  });

  it("[RG93] searches the corpus that is named, and hands the filter to the store", async () => {
    const { rag, store } = await opened();
    const searched = vi.spyOn(store, "search");
    const filter = { type: "gte", key: "number", value: 2 } as const;
    const found = await all(rag.search("the bridge", { filter, limit: 4 }));
    expect(names(found).sort()).toEqual(["fact-2.md", "fact-3.md"]);
    expect(searched.mock.calls.map(([, query]) => query.filter)).toEqual([filter, filter]);
    expect(names(await all(rag.search("bridge", { corpus: "other" })))).toEqual(["fact-3.md"]);
    const only = await rag.answer("When was the Orlen bridge built?", {
      filter: { type: "eq", key: "number", value: 0 },
    });
    expect(only.sources.map(({ chunk }) => chunk.documentId)).toEqual(["fact-0.md"]);
  });

  it("[RG93] refuses unknown corpora and those of other embedders", async () => {
    const { rag, store } = await opened();
    const asked = all(rag.search("bridge", { corpus: "nowhere" }));
    await expect(asked).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param: "corpus" });
    await store.create({ name: "foreign", dimensions: 8, embedder: "other" });
    const foreign = rag.answer("bridge?", { corpus: "foreign" });
    await expect(foreign).rejects.toMatchObject({ code: "CORPUS_INVALID" });
  });

  it("searches by meaning, by words, or by both", async () => {
    const { rag } = await opened();
    const query = "How long is the Kesset bridge?";
    for (const mode of ["hybrid", "vector", "text"] as const) {
      const [first] = await all(rag.search(query, { mode }));
      expect(first?.chunk.documentId).toBe("fact-1.md");
      expect(first?.cosine === null).toBe(mode === "text");
    }
  });

  it("[RG94] orders by the reranker, and takes its score for what fits", async () => {
    const reranker: Reranker = {
      name: "by length",
      score: async (_, texts) => texts.map((text) => (text.length > 60 ? 0.9 : 0.1)),
      close: async () => {},
      [Symbol.asyncDispose]: async () => {},
    };
    const { rag } = await opened({ reranker });
    const found = await all(rag.search("museum", { limit: 2 }));
    expect(found.map(({ relevance }) => relevance)).toEqual([0.9, 0.9]);
    const { sources } = await rag.answer("When did the Morrow museum open?", { scoreMin: 0.5 });
    expect(sources.map(({ chunk }) => chunk.documentId)).not.toContain("fact-3.md");
  });

  it("[RG94] a chunk fits by its cosine, or by half of the question's words", () => {
    const chunkOf = (text: string, cosine: number | null, relevance: number | null = null) => {
      return { chunk: wordChunk("a.md", text), score: 1, cosine, relevance };
    };
    const question = "Who designed the Kesset bridge?";
    const cases: readonly (readonly [FoundChunk, boolean])[] = [
      [chunkOf("Anything.", 0.5), true],
      [chunkOf("Anything.", 0.1), false],
      [chunkOf("A bridge that Hask designed.", 0.1), true],
      [chunkOf("Who was the one and the other?", null), false],
      [chunkOf("The Kesset bridge was designed.", 0.9, 0.1), false],
      [chunkOf("Anything.", 0.1, 0.9), true],
    ];
    for (const [chunk, fits] of cases) {
      expect(fitting([chunk], question, 0.3)).toHaveLength(fits ? 1 : 0);
    }
  });

  it("[RG92] ends with the signal's reason, wherever it is", async () => {
    const { rag } = await opened();
    const early = AbortSignal.abort(new Error("too early"));
    await expect(rag.answer("Why?", { signal: early })).rejects.toThrow("too early");
    await expect(all(rag.search("x", { signal: early }))).rejects.toThrow("too early");
    for (const at of ["question", "sources"]) {
      const stop = new AbortController();
      const asking = async () => {
        const { signal } = stop;
        for await (const event of rag.ask("How long is the Kesset bridge?", { signal })) {
          if (event.type === at) stop.abort(new Error(`at ${at}`));
        }
      };
      await expect(asking()).rejects.toThrow(`at ${at}`);
    }
    await until("nothing runs", () => llm.stats().running === 0);
  });

  it("[RG92] closing ends what is in work, and leaves alone what it was given", async () => {
    const { rag, store } = await opened();
    const closed = [vi.spyOn(store, "close"), vi.spyOn(embedder, "close")];
    const events: AskEvent[] = [];
    const asking = async () => {
      for await (const event of rag.ask("How long is the Kesset bridge?", { style: "written" })) {
        events.push(event);
        if (event.type === "sources") await rag.close();
      }
    };
    await expect(asking()).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
    await expect(rag.answer("Why?")).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
    await rag.close();
    expect(closed.map((spy) => spy.mock.calls.length)).toEqual([0, 0]);
    expect(llm.health().state).toBe("ready");
  });

  it.each([
    ["", {}, "question"],
    ["x".repeat(20_001), {}, "question"],
    ["Why?", { sourcesMax: 0 }, "sourcesMax"],
    ["Why?", { cacheSalt: "" }, "cacheSalt"],
    ["Why?", { turns: [{ question: 1 }] }, "turns"],
    ["Why?", { unheard: 1 }, "unheard"],
  ])("refuses %j with %j", async (question, options, param) => {
    const { rag } = await opened();
    const asked = rag.answer(question, options as object);
    await expect(asked).rejects.toMatchObject({ code: "INVALID_ARGUMENT", param });
  });

  it("says that a model is needed to ask, and searches without", async () => {
    const { rag } = await opened({ llm: null });
    await expect(rag.answer("Why?")).rejects.toMatchObject({ param: "llm" });
    expect(await all(rag.search("bridge"))).toHaveLength(4);
  });

  it("tells what there is, and removes it", async () => {
    const { rag } = await opened();
    const { corpora } = await rag.status();
    expect(corpora.map(({ name, documents }) => [name, documents])).toEqual([
      ["default", 4],
      ["other", 1],
    ]);
    expect(await rag.removeDocument("fact-0.md")).toBe(1);
    expect(await rag.removeDocument("fact-0.md")).toBe(0);
    expect((await rag.documents()).map(({ id }) => id)).toEqual(
      [1, 2, 3].map((place) => `fact-${place}.md`),
    );
    expect([await rag.removeCorpus("other"), await rag.removeCorpus("other")]).toEqual([
      true,
      false,
    ]);
    expect(await rag.documents("other")).toEqual([]);
  });

  it("reads files into a folder that it opened by name, and finds them after a restart", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-rag-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const [place, text] of facts.entries()) {
      writeFileSync(join(folder, `fact-${place}.md`), `# Fact ${place}\n\n${text}\n`);
    }
    const store = join(folder, "store");
    {
      await using rag = await Rag.open({ store, embedder });
      const attributes = { from: "test" };
      const events = await all(rag.ingest(["*.md"], { base: folder, attributes }));
      expect(events.at(-1)).toMatchObject({ type: "report", stored: 4, failed: 0 });
    }
    await using rag = await Rag.open({ store, embedder, llm });
    const [again] = (await all(rag.ingest(["*.md"], { base: folder }))).slice(-1);
    expect(again).toMatchObject({ type: "report", documents: 4 });
    const { text, sources } = await rag.answer("What is the population of Sarvik?");
    expect(text).toMatch(/18,240.* \[\d\]$/);
    expect(sources.map(({ chunk }) => chunk.place.headings.at(-1))).toContain("Fact 2");
  });
});
