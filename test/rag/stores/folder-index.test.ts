/** The index of many vectors in a folder: what it finds, what it must not find, how it grows. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { openStore, type VectorStore } from "#rag/stores";
import type { StoredChunk } from "#rag/texts";
import { FolderCorpora } from "../../../src/rag/stores/folder-corpora.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { byVector, chunkOf, unit } from "./corpus-cases.ts";

const DIMENSIONS = 16;
const CHUNKS = 3000;
const CLUSTERS = 40;
/** A hundred rows are compared one by one. */
const OPTIONS = { exactElements: 100 * DIMENSIONS };
const SPEC = { name: "many", dimensions: DIMENSIONS, embedder: "embedder-1" };
const seed = seedFrom(11);

function numbers(stream: number): number[] {
  return Array.from({ length: DIMENSIONS }, (_, place) => uniformAt(seed, stream, place) - 0.5);
}

/** Around one of the clusters, as embeddings of texts about a few subjects are. */
function clustered(number: number): number[] {
  const center = numbers(100_000 + (number % CLUSTERS));
  return numbers(number).map((element, place) => (center[place] ?? 0) + 0.4 * element);
}

const chunks: readonly StoredChunk[] = Array.from({ length: CHUNKS }, (_, number) =>
  chunkOf({
    document: `document-${number % 30}`,
    index: Math.floor(number / 30),
    text: `text ${number}`,
    attributes: { tenth: number % 10 === 0, number },
    vector: clustered(number),
  }),
);
const queries = Array.from({ length: 40 }, (_, number) => unit(clustered(50_000 + number)));

let folder: string;
let store: VectorStore;
let model: MemoryStore;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "perigee-index-"));
  store = await openStore(folder, OPTIONS);
  model = new MemoryStore();
  for (const one of [store, model]) await one.create(SPEC);
  for (let start = 0; start < CHUNKS; start += 500) {
    const batch = chunks.slice(start, start + 500);
    await Promise.all([store.upsert(SPEC.name, batch), model.upsert(SPEC.name, batch)]);
  }
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

const query = (vector: Float32Array, rest = {}) => ({ ...byVector([1]), vector, ...rest });

/** The share of the model's results that the store has, whose scores must be the model's. */
async function recall(rest = {}): Promise<number> {
  let shared = 0;
  let expected = 0;
  for (const vector of queries) {
    const wanted = await model.search(SPEC.name, query(vector, rest));
    const found = await store.search(SPEC.name, query(vector, rest));
    expect(found).toHaveLength(wanted.length);
    const scores = new Map(wanted.map(({ chunk, score }) => [chunk.id, score]));
    for (const { chunk, score } of found) {
      const exact = scores.get(chunk.id);
      if (exact === undefined) continue;
      expect(score).toBeCloseTo(exact, 6);
      shared++;
    }
    expected += wanted.length;
  }
  return shared / expected;
}

function indexFiles(): string[] {
  const [corpus = ""] = readdirSync(join(folder, "corpora"));
  return readdirSync(join(folder, "corpora", corpus)).filter((name) => name.endsWith(".usearch"));
}

describe("an index of many vectors", () => {
  it("[RG17] finds nearly all of the nearest, with the scores of the vectors themselves", async () => {
    expect(await recall()).toBeGreaterThan(0.98);
    await store.close();
    expect(indexFiles()).toHaveLength(1);
    store = await openStore(folder, OPTIONS);
    expect(await recall()).toBeGreaterThan(0.98);
  });

  it("[RG17] finds all that a filter leaves, be it a half, a tenth or one in a thousand", async () => {
    const half = { filter: { type: "lt", key: "number", value: CHUNKS / 2 } };
    expect(await recall(half)).toBeGreaterThan(0.98);
    expect(await recall({ filter: { type: "eq", key: "tenth", value: true } })).toBeGreaterThan(
      0.98,
    );
    expect(await recall({ filter: { type: "lt", key: "number", value: 3 } })).toBe(1);
  });

  it("[RG17] never finds what was removed or replaced, also after it was opened again", async () => {
    const gone = Array.from({ length: 20 }, (_, number) => `document-${number}`);
    for (const document of gone) {
      await Promise.all([store, model].map((one) => one.deleteDocument(SPEC.name, document)));
    }
    const moved = chunks.slice(20, 30).map((chunk, place) => ({
      ...chunk,
      vector: unit(clustered(70_000 + place)),
    }));
    await Promise.all([store, model].map((one) => one.upsert(SPEC.name, moved)));
    const check = async () => {
      expect(await recall({ limit: 100 })).toBeGreaterThan(0.98);
      expect(await store.corpus(SPEC.name)).toEqual(await model.corpus(SPEC.name));
    };
    await check();
    await store.close();
    store = await openStore(folder, OPTIONS);
    await check();
    // Rows of what was removed are used again, of which an older index had other vectors.
    const back = chunks.filter((chunk) => gone.includes(chunk.documentId)).slice(0, 1500);
    const turned = back.map((chunk, place) => ({
      ...chunk,
      vector: unit(clustered(80_000 + place)),
    }));
    await Promise.all([store, model].map((one) => one.upsert(SPEC.name, turned)));
    await check();
    await store.close();
    expect(indexFiles()).toHaveLength(1);
    store = await openStore(folder, OPTIONS);
    await check();
  });

  it("[RG17] is not needed: without the library all vectors are compared", async () => {
    await store.close();
    const corpora = new FolderCorpora(folder, { usearch: null, exactElements: null });
    const moved = chunks.slice(0, 40).map((chunk, place) => ({
      ...chunk,
      vector: unit(clustered(90_000 + place)),
    }));
    await model.upsert(SPEC.name, moved);
    corpora.with(SPEC.name, "store", (corpus) => corpus.upsert(moved));
    for (const vector of queries.slice(0, 10)) {
      const found = corpora.with(SPEC.name, "search", (one) => one.search(query(vector)));
      const ids = found.map(({ chunk }) => chunk.id);
      const expected = await model.search(SPEC.name, query(vector));
      expect(ids).toEqual(expected.map(({ chunk }) => chunk.id));
    }
    expect(corpora.work()).toBe(false);
    corpora.close();
    expect(indexFiles()).toEqual([]);
    // Where it is there again, its index is built from the vectors as they are now.
    store = await openStore(folder, OPTIONS);
    expect(await recall()).toBeGreaterThan(0.98);
  });
});
