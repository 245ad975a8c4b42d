import { expect, test } from "vitest";
import { makeId } from "../../../src/rag/http/identifiers.ts";
import { RagIngest } from "../../../src/rag/http/rag-ingest.ts";
import { MemoryStore } from "../../support/memory-store.ts";
import { WordEmbedder, wordChunk } from "../../support/word-embedder.ts";

/** A corpus with a document of so many chunks, and one of a row of a file. */
async function withChunks(count: number) {
  const [store, embedder] = [new MemoryStore(), new WordEmbedder()];
  const [id, rows] = [makeId("file", 1), makeId("file", 2)];
  await store.create({ name: "c", dimensions: 256, embedder: embedder.fingerprint });
  const chunks = Array.from({ length: count }, (_, index) =>
    wordChunk(`${id}/content.md`, `Text ${index}`, { index }),
  );
  const row = (n: number) => wordChunk(`${rows}/content.csv#${n}`, `Row ${n}`);
  await store.upsert("c", [...chunks, row(1), row(2)]);
  return { store, id, rows, ingest: new RagIngest({ store, embedder, folder: "/nowhere" }) };
}

test("[RG100] the content of a file is that of all of its documents, in order", async () => {
  const { ingest, id, rows } = await withChunks(3);
  const parts = async (file: string) => {
    const texts: string[] = [];
    for await (const part of await ingest.texts("c", file)) texts.push(...part);
    return texts;
  };
  expect(await parts(id)).toEqual(["Text 0", "Text 1", "Text 2"]);
  expect(await parts(rows)).toEqual(["Row 1", "Row 2"]);
  expect(await parts(makeId("file", 3))).toEqual([]);
});

test("[RG107] a file leaves with all of its documents, and no other does", async () => {
  const { ingest, store, id, rows } = await withChunks(2);
  await ingest.remove("c", rows);
  expect((await store.documents("c")).map((document) => document.id)).toEqual([`${id}/content.md`]);
  await ingest.remove("none", id);
});

test("[RG105] the content of a document that would hold up others is refused", async () => {
  const { ingest, id } = await withChunks(2501);
  await expect(ingest.texts("c", id)).rejects.toMatchObject({ status: 400 });
});

test("[RG107] a chunk tells its file, where it is of one", async () => {
  const { ingest, id } = await withChunks(0);
  expect(ingest.fileIdOf(`${id}/content.csv#7`)).toBe(id);
  expect(ingest.fileIdOf("docs/readme.md")).toBe(null);
  expect(ingest.fileIdOf("file-1/content.md")).toBe(null);
});
