/** What every store of chunks promises; each store's own tests run this. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Filter, Hit, StoreQuery, VectorStore } from "#rag/stores";
import { sized } from "../../support/full.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import {
  byText,
  byVector,
  chunkOf,
  DIMENSIONS,
  histories,
  type Step,
  unit,
} from "./corpus-cases.ts";

/** A place where a store is kept between openings. */
export interface StorePlace {
  open(): Promise<VectorStore>;
  close(): Promise<void>;
}

/** What a store may do in its own way. */
export interface ContractOptions {
  /** Whether scores of words equal those of the model, and not only its matches. */
  readonly hasModelScores: boolean;
  readonly histories: number;
}

const SPEC = { dimensions: DIMENSIONS, embedder: "embedder-1" };

export function storeContract(
  kind: string,
  make: () => Promise<StorePlace>,
  options: ContractOptions,
): void {
  describe(`${kind} as a store`, () => {
    let place: StorePlace;
    let store: VectorStore;
    let corpora = 0;
    beforeAll(async () => {
      place = await make();
      store = await place.open();
    });
    afterAll(async () => {
      await store?.close();
      await place?.close();
    });

    /** A new corpus. */
    async function corpus(): Promise<string> {
      const name = `corpus-${corpora++}`;
      await store.create({ name, ...SPEC });
      return name;
    }

    async function reopen(): Promise<void> {
      await store.close();
      store = await place.open();
    }

    const idsOf = (hits: readonly Hit[]) => hits.map(({ chunk }) => chunk.id);
    const textsOf = (hits: readonly Hit[]) => hits.map(({ chunk }) => chunk.text);

    describe("corpora", () => {
      it("[RG3] are made once, listed by name with what is in them, and removed", async () => {
        const name = await corpus();
        await store.create({ name, ...SPEC });
        await store.upsert(name, [chunkOf({ document: "a" }), chunkOf({ document: "b" })]);
        await store.create({ name, ...SPEC });
        const info = { name, ...SPEC, documents: 2, chunks: 2 };
        expect(await store.corpus(name)).toEqual(info);
        const listed = await store.corpora();
        expect(listed).toContainEqual(info);
        const names = listed.map((one) => one.name);
        expect(names).toEqual([...names].sort());
        await store.drop(name);
        expect(await store.corpus(name)).toBeNull();
        await store.drop(name);
        await store.create({ name, ...SPEC });
        expect(await store.corpus(name)).toEqual({ ...info, documents: 0, chunks: 0 });
      });

      it("[RG3] differ where their names differ in case alone", async () => {
        const name = await corpus();
        const upper = name.toUpperCase();
        await store.create({ name: upper, ...SPEC });
        await store.upsert(upper, [chunkOf({ document: "a" })]);
        expect(await store.corpus(name)).toMatchObject({ name, chunks: 0 });
        expect(await store.corpus(upper)).toMatchObject({ name: upper, chunks: 1 });
      });

      it("[RG4] of another embedder or dimension are refused with the remedy", async () => {
        const name = await corpus();
        const stored = chunkOf({ document: "a" });
        await store.upsert(name, [stored]);
        for (const other of [{ embedder: "embedder-2" }, { dimensions: DIMENSIONS + 1 }]) {
          await expect(store.create({ name, ...SPEC, ...other })).rejects.toMatchObject({
            code: "CORPUS_INVALID",
            message: expect.stringMatching(/remove the corpus and ingest again/),
          });
        }
        await reopen();
        await expect(store.create({ name, ...SPEC, embedder: "embedder-2" })).rejects.toMatchObject(
          { code: "CORPUS_INVALID" },
        );
        expect(idsOf(await store.search(name, byVector([1, 0, 0, 0])))).toEqual([stored.id]);
      });

      it("[RG4] that were not made are refused with the remedy", async () => {
        const missing = {
          code: "CORPUS_INVALID",
          message: expect.stringMatching(/create it first/),
        };
        const name = "never-made";
        const calls = [
          () => store.upsert(name, [chunkOf({ document: "a" })]),
          () => store.deleteDocument(name, "a"),
          () => store.search(name, byVector([1, 0, 0, 0])),
          () => store.count(name, null),
          () => store.documents(name),
          () => store.chunksOf(name, "a"),
        ];
        for (const call of calls) await expect(call()).rejects.toMatchObject(missing);
        expect(await store.corpus(name)).toBeNull();
      });
    });

    describe("chunks", () => {
      it("[RG5] are found as they were stored, also by another opening", async () => {
        const name = await corpus();
        const awkward = chunkOf({
          document: `dir/"quoted" and \\back' ; DROP TABLE chunks; -- 文档.md`,
          text: 'first line\nsecond\tline \u0000 with a zero, 水, 🦊 and \\n "quotes"',
          attributes: { lang: "en", size: 1.25, open: false, "a-b_c": "" },
          index: 3,
        });
        const page = {
          ...chunkOf({ document: "b.pdf" }),
          place: { lines: null, page: 7, headings: [] },
        };
        await store.upsert(name, [awkward, page]);
        const { vector: _, ...plain } = awkward;
        const found = async () =>
          (await store.search(name, byVector([1, 3, 0, 0], { limit: 1 })))[0]?.chunk;
        expect(await found()).toEqual(plain);
        await reopen();
        expect(await found()).toEqual(plain);
        expect(await store.chunksOf(name, awkward.documentId)).toEqual([plain]);
        expect(await store.chunksOf(name, "b.pdf")).toMatchObject([{ place: page.place }]);
      });

      it("[RG5] of the same id are replaced: none is there twice, and all of it is new", async () => {
        const name = await corpus();
        const former = chunkOf({ document: "a", attributes: { size: 1 }, vector: [1, 0, 0, 0] });
        const latter = {
          ...former,
          documentHash: "h2",
          attributes: { size: 2 },
          vector: unit([0, 1, 0, 0]),
        };
        await store.upsert(name, [former, chunkOf({ document: "b" })]);
        await store.upsert(name, [former, latter]);
        expect(await store.corpus(name)).toMatchObject({ chunks: 2, documents: 2 });
        const [hit] = await store.search(name, byVector([0, 1, 0, 0]));
        expect(hit?.chunk).toMatchObject({ id: former.id, attributes: { size: 2 } });
        expect(hit?.score).toBeCloseTo(1, 5);
        expect((await store.documents(name))[0]).toEqual({ id: "a", hash: "h2", chunks: 1 });
        const old: Filter = { type: "eq", key: "size", value: 1 };
        expect(await store.count(name, old)).toBe(0);
      });

      it("[RG6] of a document are removed but those to keep, and counted", async () => {
        const name = await corpus();
        const own = [0, 1, 2].map((index) => chunkOf({ document: "a", index }));
        await store.upsert(name, [...own, chunkOf({ document: "a2" })]);
        expect(await store.deleteDocument(name, "a", new Set([own[1]?.id ?? ""]))).toBe(2);
        expect((await store.chunksOf(name, "a")).map(({ id }) => id)).toEqual([own[1]?.id]);
        expect(await store.deleteDocument(name, "a")).toBe(1);
        expect(await store.deleteDocument(name, "a")).toBe(0);
        expect(await store.deleteDocument(name, `a" or "a" == "a`)).toBe(0);
        expect(await store.documents(name)).toEqual([{ id: "a2", hash: "h1", chunks: 1 }]);
        expect(await store.search(name, byText("words"))).toHaveLength(1);
      });

      it("[RG7] of one document with two hashes make it one without a hash", async () => {
        const name = await corpus();
        await store.upsert(name, [
          chunkOf({ document: "a", index: 0, hash: "h1" }),
          chunkOf({ document: "a", index: 1, hash: "h2" }),
          chunkOf({ document: "b", hash: "h3" }),
        ]);
        expect(await store.documents(name)).toEqual([
          { id: "a", hash: "", chunks: 2 },
          { id: "b", hash: "h3", chunks: 1 },
        ]);
        expect((await store.chunksOf(name, "a")).map(({ index }) => index)).toEqual([0, 1]);
      });
    });

    describe("searches", () => {
      it("[RG8] by vector are ordered by cosine", async () => {
        const name = await corpus();
        const stored = [0, 1, 2, 5].map((index) => chunkOf({ document: "a", index }));
        await store.upsert(name, stored);
        const hits = await store.search(name, byVector([1, 0, 0, 0], { limit: 3 }));
        expect(idsOf(hits)).toEqual(stored.slice(0, 3).map(({ id }) => id));
        const cosines = [1, 1 / Math.sqrt(2), 1 / Math.sqrt(5)];
        for (const [place, { score }] of hits.entries()) {
          expect(score).toBeCloseTo(cosines[place] ?? 0, 5);
        }
      });

      it("[RG8] give as many results as pass the filter, however rare those are", async () => {
        const name = await corpus();
        const many = Array.from({ length: 300 }, (_, index) =>
          chunkOf({
            document: `d${index % 7}`,
            index,
            attributes: { rare: index % 100 === 99 },
            vector: [1, index / 300, 0, 0],
          }),
        );
        await store.upsert(name, many);
        const filter: Filter = { type: "eq", key: "rare", value: true };
        const rare = many.filter(({ attributes }) => attributes.rare === true).map(({ id }) => id);
        for (const query of [byVector([1, 0, 0, 0], { filter }), byText("words", { filter })]) {
          expect(idsOf(await store.search(name, query)).sort()).toEqual([...rare].sort());
        }
        expect(await store.search(name, byVector([1, 0, 0, 0], { limit: 250 }))).toHaveLength(250);
        expect(await store.search(name, byText("words", { limit: 250 }))).toHaveLength(250);
      });

      it("[RG9] by text find chunks with a word, whatever its case, accents and script", async () => {
        const name = await corpus();
        const texts = [
          "The Über-Cache of blocks",
          "function parseHttpHeader(snake_case)",
          "東京水道局の案内",
          "blocks blocks blocks",
          "none of them",
        ];
        await store.upsert(
          name,
          texts.map((text, index) => chunkOf({ document: "a", index, text })),
        );
        const found = async (text: string) => textsOf(await store.search(name, byText(text)));
        expect(await found("uber")).toEqual([texts[0]]);
        expect(await found("HEADER")).toEqual([texts[1]]);
        expect(await found("snake")).toEqual([texts[1]]);
        expect(await found("水道")).toEqual([texts[2]]);
        expect(await found("BLOCKS?")).toEqual([texts[3], texts[0]]);
        expect((await found('header OR "blocks')).sort()).toEqual(
          [texts[0], texts[1], texts[3]].sort(),
        );
        for (const text of ["", " ", '"', "*", "absent", "AND"])
          expect(await found(text)).toEqual([]);
      });

      it("[RG9] by text weigh rare words more than frequent ones", async () => {
        const name = await corpus();
        const texts = ["common rare", "common other", "common thing", "common last", "unrelated"];
        await store.upsert(
          name,
          texts.map((text, index) => chunkOf({ document: "a", index, text })),
        );
        const [best] = await store.search(name, byText("common rare"));
        expect(best?.chunk.text).toBe("common rare");
        expect(best?.score).toBeGreaterThan(0);
      });

      it("[RG10] by both sum the reciprocal ranks of the two lists", async () => {
        const name = await corpus();
        const stored = [
          chunkOf({ document: "a", text: "alpha", vector: [1, 0, 0, 0] }),
          chunkOf({ document: "b", text: "beta beta", vector: [1, 1, 0, 0] }),
          chunkOf({ document: "c", text: "gamma", vector: [1, 3, 0, 0] }),
        ];
        await store.upsert(name, stored);
        const query = { ...byVector([1, 0, 0, 0]), text: "beta" };
        const hits = await store.search(name, query);
        expect(textsOf(hits)).toEqual(["beta beta", "alpha", "gamma"]);
        const sums = [1 / 61 + 1 / 62, 1 / 61, 1 / 63];
        for (const [place, { score }] of hits.entries()) {
          expect(score).toBeCloseTo(sums[place] ?? 0, 6);
        }
      });
    });

    describe("arguments", () => {
      const chunk = chunkOf({ document: "a" });
      const invalid: [string, (name: string) => Promise<unknown>][] = [
        ["a name with a slash", () => store.create({ name: "../a", ...SPEC })],
        ["no dimensions", (name) => store.create({ name: `${name}x`, ...SPEC, dimensions: 0 })],
        [
          "a vector too short",
          (name) => store.upsert(name, [chunk, { ...chunk, vector: unit([1]) }]),
        ],
        [
          "a vector that is no direction",
          (name) =>
            store.upsert(name, [{ ...chunk, vector: new Float32Array([Number.NaN, 0, 0, 0]) }]),
        ],
        [
          "an attribute's name",
          (name) => store.upsert(name, [{ ...chunk, attributes: { "a b": 1 } }]),
        ],
        [
          "an attribute that is not finite",
          (name) => store.upsert(name, [{ ...chunk, attributes: { a: Number.POSITIVE_INFINITY } }]),
        ],
        ["a lone surrogate", (name) => store.upsert(name, [{ ...chunk, text: "\ud800" }])],
        ["no limit", (name) => store.search(name, byVector([1, 0, 0, 0], { limit: 0 }))],
        ["neither vector nor text", (name) => store.search(name, byText("", { text: null }))],
        [
          "a filter that is a thousand deep",
          (name) => {
            let filter: Filter = { type: "eq", key: "a", value: 1 };
            for (let depth = 0; depth < 1000; depth++) filter = { type: "and", filters: [filter] };
            return store.count(name, filter);
          },
        ],
        [
          "a filter's key",
          (name) => store.count(name, { type: "eq", key: 'a"] or true', value: 1 }),
        ],
      ];
      it.each(invalid)("[RG11] such as %s are refused and change nothing", async (_, call) => {
        const name = await corpus();
        await expect(call(name)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
        expect(await store.corpus(name)).toMatchObject({ chunks: 0 });
      });
    });

    it("[RG1] [RG12] random histories end as the plain model says", async () => {
      await fc.assert(
        fc.asyncProperty(histories, async (steps) => {
          const name = await corpus();
          const model = new MemoryStore();
          await model.create({ name, ...SPEC });
          for (const step of steps) {
            if (step.type === "reopen") await reopen();
            else await compare(step, { name, store, model, options });
          }
          await compare({ type: "list" }, { name, store, model, options });
          await store.drop(name);
        }),
        { seed: 20_26, numRuns: sized(options.histories, options.histories * 10) },
      );
    });

    it("[RG13] a closed store refuses calls and may be closed again", async () => {
      const name = await corpus();
      await store.close();
      await store.close();
      await expect(store.corpora()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
      store = await place.open();
      expect(await store.corpus(name)).toMatchObject({ chunks: 0 });
    });
  });
}

interface Compared {
  readonly name: string;
  readonly store: VectorStore;
  readonly model: VectorStore;
  readonly options: ContractOptions;
}

async function compare(step: Exclude<Step, { type: "reopen" }>, compared: Compared): Promise<void> {
  const { name, store, model } = compared;
  if (step.type === "upsert") {
    await Promise.all([store.upsert(name, step.chunks), model.upsert(name, step.chunks)]);
  } else if (step.type === "delete") {
    const own = await model.chunksOf(name, step.document);
    const keep = new Set(step.keep.flatMap((place) => own[place]?.id ?? []));
    const removed = await store.deleteDocument(name, step.document, keep);
    expect(removed).toBe(await model.deleteDocument(name, step.document, keep));
  } else if (step.type === "search") {
    await compareSearch(step.query, compared);
  } else if (step.type === "count") {
    expect(await store.count(name, step.filter)).toBe(await model.count(name, step.filter));
  } else {
    expect(await store.corpus(name)).toEqual(await model.corpus(name));
    const documents = await model.documents(name);
    expect(await store.documents(name)).toEqual(documents);
    for (const { id } of documents) {
      expect(await store.chunksOf(name, id)).toEqual(await model.chunksOf(name, id));
    }
  }
}

/** Scores to 5 places; of ids all but the last score's, whose ties a server cuts as it likes. */
async function compareSearch(query: StoreQuery, { name, store, model, options }: Compared) {
  const found = await store.search(name, query);
  const expected = await model.search(name, query);
  const isExact = query.text === null || options.hasModelScores;
  const listed = (hits: readonly Hit[]) =>
    hits.map(({ chunk, score }) => [chunk.id, isExact ? Number(score.toFixed(5)) : null]);
  if (isExact) {
    expect(listed(found)).toEqual(listed(expected));
    return;
  }
  expect(found).toHaveLength(expected.length);
  const matching = await model.search(name, { ...query, limit: 1000 });
  const ids = new Set(matching.map(({ chunk }) => chunk.id));
  for (const { chunk } of found) expect(ids).toContain(chunk.id);
}
