import { describe, expect, test } from "vitest";
import { LLM } from "#engine";
import { LocalEmbedder, openEmbedder } from "#rag/embedders";
import { LAYOUT_DEVICES } from "./devices.ts";
import {
  expectVectors,
  type Files,
  layoutFolder,
  type RecordedEmbedder,
  recordedLayout,
} from "./recorded-layout.ts";

const engine = {
  ...({ device: "reference", dtype: "float32", engineThread: false } as const),
  onWarning: () => {},
};

const LAYOUTS = ["bert", "xlm-roberta", "nomic-bert", "modernbert", "qwen3"];
const cases = LAYOUT_DEVICES.flatMap((device) =>
  LAYOUTS.flatMap((layout) =>
    Object.entries(recordedLayout(layout).embedders).map(
      ([title, recorded]) => [`${device}, ${layout}: ${title}`, device, layout, recorded] as const,
    ),
  ),
);

describe("[RG60] vectors of queries and documents are those of sentence-transformers", () => {
  test.each(cases)("%s", async (_, device, layout, recorded) => {
    const { queries, documents } = recordedLayout(layout);
    const folder = layoutFolder(layout, recorded.files);
    const prompts = recorded.given === undefined ? {} : { prompts: recorded.given };
    const options = { engine: { ...engine, device }, ...prompts };
    await using embedder = await openEmbedder(folder, options);
    expect(await embedder.countTokens(documents.slice(0, 2))).toEqual(
      recorded.documentTokens.slice(0, 2),
    );
    expectVectors(await embedder.embedQueries(queries), recorded.queries);
    expectVectors(await embedder.embedDocuments(documents), recorded.documents);
  });
});

function bert(title: string): RecordedEmbedder {
  const recorded = recordedLayout("bert").embedders[title];
  if (recorded === undefined) throw new Error(`${title} was not recorded`);
  return recorded;
}

describe("[RG62] prompts are those of the files, else those that go with the name", () => {
  const e5 = bert("E5, whose name says the prompts");
  const { queries } = recordedLayout("bert");

  test("a folder named as a known model has its prompts", async () => {
    const folder = layoutFolder("bert", e5.files, "e5-small-v2");
    await using embedder = await openEmbedder(folder, { engine });
    expectVectors(await embedder.embedQueries(queries), e5.queries);
  });

  test("options replace both, and {} means none", async () => {
    const folder = layoutFolder("bert", e5.files, "e5-small-v2");
    await using plain = await LocalEmbedder.open(folder, { engine, prompts: {} });
    expect(plain.prompts).toEqual({ query: "", document: "" });
  });

  test("a word of the files is more than the name", async () => {
    const files = bert("BGE, with its prompt").files;
    const folder = layoutFolder("bert", files, "e5-small");
    await using embedder = await LocalEmbedder.open(folder, { engine });
    expect(embedder.prompts).toEqual({ query: "Represent this: ", document: "" });
  });

  test.each([
    ["intfloat/multilingual-e5-large", "query: "],
    ["BAAI/bge-small-en-v1.5/", "Represent this sentence for searching relevant passages: "],
    ["nomic-ai/nomic-embed-text-v1.5", "search_query: "],
    ["/cache/models--intfloat--e5-base-v2/snapshots/0123abcd", "query: "],
    ["intfloat/multilingual-e5-large-instruct", ""],
    ["my-e5-small", ""],
  ])("%s: %j", async (name, query) => {
    const folder = layoutFolder("bert", e5.files);
    const llm = await LLM.load(folder, engine);
    await using embedder = await LocalEmbedder.of(llm, { name });
    expect(embedder.prompts.query).toBe(query);
  });
});

describe("[RG61] equal fingerprints mean comparable vectors", () => {
  async function fingerprintOf(files: Files, prompts?: { query: string }): Promise<string> {
    const folder = layoutFolder("bert", files);
    const options = { engine, ...(prompts && { prompts }) };
    await using embedder = await openEmbedder(folder, options);
    return embedder.fingerprint;
  }
  const { files } = bert("MiniLM");

  test("a copy elsewhere has the same", async () => {
    expect(await fingerprintOf(files)).toBe(await fingerprintOf(files));
  });

  test("other pooling, prompts, limits or normalisation of text have others", async () => {
    const all = [
      await fingerprintOf(files),
      await fingerprintOf(bert("BGE, with its prompt").files),
      await fingerprintOf(files, { query: "query: " }),
      await fingerprintOf({ ...files, "sentence_bert_config.json": { max_seq_length: 32 } }),
      await fingerprintOf({
        ...files,
        "sentence_bert_config.json": { max_seq_length: 48, do_lower_case: true },
      }),
    ];
    expect(new Set(all).size).toBe(all.length);
  });
});

describe("[RG63] texts of any length", () => {
  const { files, documents } = bert("MiniLM");
  const [, , long = ""] = recordedLayout("bert").documents;

  test("are cut off at tokensMax, however long they are", async () => {
    await using embedder = await openEmbedder(layoutFolder("bert", files), { engine });
    expect(embedder.tokensMax).toBe(48);
    const huge = long + " and so on".repeat(100_000);
    expectVectors(await embedder.embedDocuments([huge]), documents.slice(2));
  });

  test("are counted whole", async () => {
    await using embedder = await openEmbedder(layoutFolder("bert", files), { engine });
    const [one = 0, many = 0] = await embedder.countTokens(["word ", "word ".repeat(40_000)]);
    expect(many - 2).toBe((one - 2) * 40_000);
  });
});

test("[RG64] fewer dimensions are the vector's first, of length 1", async () => {
  const folder = layoutFolder("bert", bert("MiniLM").files);
  const { documents } = recordedLayout("bert");
  await using embedder = await openEmbedder(folder, { engine, dimensions: 8 });
  expect(embedder.dimensions).toBe(8);
  const cut = bert("MiniLM").documents.map((vector) => vector.slice(0, 8));
  expectVectors(await embedder.embedDocuments(documents), cut);
  await expect(openEmbedder(folder, { engine, dimensions: 17 })).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining("from 1 to 16"),
  });
});

test("[RG64] a signal ends the work with its reason", async () => {
  const folder = layoutFolder("bert", bert("MiniLM").files);
  await using embedder = await openEmbedder(folder, { engine });
  const signal = AbortSignal.abort(new Error("enough"));
  await expect(embedder.embedQueries(["a"], { signal })).rejects.toThrow("enough");
  await expect(embedder.countTokens(["a"], { signal })).rejects.toThrow("enough");
});

test("a bundled model is opened by its name, with a warning where it is no embedding model", async () => {
  const warnings: string[] = [];
  const onWarning = (text: string) => warnings.push(text);
  await using embedder = await openEmbedder("pocket", { engine: { ...engine, onWarning } });
  const [vector] = await embedder.embedQueries(["a question"]);
  expect(vector).toHaveLength(embedder.dimensions);
  expect(warnings.join()).toContain("pocket generates text");
});
