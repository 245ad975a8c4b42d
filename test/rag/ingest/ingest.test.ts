import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EngineError } from "#base";
import { MemoryStore } from "../../support/rag-memory-store.ts";
import { WordEmbedder } from "../../support/rag-word-embedder.ts";
import {
  chunksIn,
  eventsOf,
  folder,
  namesIn,
  optionsFor,
  prose,
  reportOf,
  write,
} from "./ingest-cases.ts";

describe("ingest", () => {
  it("[RG45] stores the chunks of documents, with kind, path and attributes of the caller", async () => {
    const base = folder({
      "docs/a.md": "# Top\n\nfirst\n\n## Inner\n\nsecond\n",
      "docs/b.txt": "third",
    });
    const options = optionsFor(base, { attributes: { team: "blue" } });
    const report = await reportOf(["docs"], options);
    expect(report).toMatchObject({ files: 2, documents: 2, stored: 2, chunksStored: 3, failed: 0 });
    const chunks = await chunksIn(options.store);
    expect(chunks).toMatchObject([
      {
        ...{ documentId: "docs/a.md", index: 0, text: "first" },
        place: { lines: [3, 3], page: null, headings: ["Top"] },
        attributes: { kind: "markdown", path: "docs/a.md", team: "blue" },
      },
      { documentId: "docs/a.md", index: 1, place: { lines: [7, 7], headings: ["Top", "Inner"] } },
      { documentId: "docs/b.txt", text: "third", attributes: { kind: "text" } },
    ]);
  });

  it("[RG45] makes vectors of texts below their headings", async () => {
    const base = folder({ "a.md": "# Top\n\nfirst\n" });
    const embedder = new WordEmbedder();
    await reportOf(["."], optionsFor(base, { embedder }));
    expect(embedder.embedded).toEqual(["Top\n\nfirst"]);
  });

  it("[RG46] leaves what did not change: nothing is embedded or stored again", async () => {
    const base = folder({ "a.md": prose(1, 9), "b.md": prose(2, 9) });
    const methods: string[] = [];
    const store = new MemoryStore((method) => void methods.push(method));
    const embedder = new WordEmbedder();
    const options = optionsFor(base, { store, embedder });
    await reportOf(["."], options);
    const before = await chunksIn(store);
    embedder.embedded.length = methods.length = 0;
    expect(await reportOf(["."], options)).toMatchObject({ unchanged: 2, stored: 0, documents: 2 });
    expect(embedder.embedded).toEqual([]);
    expect(methods).toEqual(["create", "documents"]);
    expect(await chunksIn(store)).toEqual(before);
  });

  it("[RG46] reads again when documents are cut in another way, or get other attributes", async () => {
    const base = folder({ "a.md": prose(1, 9) });
    const options = optionsFor(base);
    await reportOf(["."], options);
    const wider = { ...options, settings: { ...options.settings, chunkTokens: 64 } };
    expect(await reportOf(["."], wider)).toMatchObject({ stored: 1, unchanged: 0 });
    const tagged = { ...wider, attributes: { team: "red" } };
    expect(await reportOf(["."], tagged)).toMatchObject({ stored: 1, unchanged: 0 });
    expect(await reportOf(["."], tagged)).toMatchObject({ stored: 0, unchanged: 1 });
  });

  it("[RG47] replaces a changed document: afterwards its chunks are those of a fresh corpus", async () => {
    for (const [before, after] of [
      [prose(1, 9), prose(2, 4)],
      [prose(1, 9), `${prose(1, 9)}${prose(3, 5)}`],
      [prose(1, 2), `${prose(4, 5)}${prose(1, 2)}`],
      ["short", "other"],
      ["short", prose(5, 6)],
      [prose(5, 6), " \n"],
    ] as const) {
      const base = folder({ "a.md": before });
      const options = optionsFor(base);
      await reportOf(["."], options);
      write(base, { "a.md": after });
      await reportOf(["."], options);
      const fresh = optionsFor(base);
      await reportOf(["."], fresh);
      expect(await chunksIn(options.store)).toEqual(await chunksIn(fresh.store));
    }
  });

  it("[RG47] has chunks of a changed document at every moment", async () => {
    const base = folder({ "a.md": prose(1, 9) });
    const counts: number[] = [];
    const store: MemoryStore = new MemoryStore(async (method) => {
      if (["upsert", "deleteDocument"].includes(method)) {
        counts.push((await store.corpus("c"))?.chunks ?? 0);
      }
    });
    const options = optionsFor(base, { store, settings: { storeBatch: 2, embedBatch: 2 } });
    await reportOf(["."], options);
    write(base, { "a.md": prose(2, 9) });
    counts.length = 0;
    await reportOf(["."], options);
    expect(counts.length).toBeGreaterThan(9);
    expect(Math.min(...counts)).toBeGreaterThan(8);
  });

  it("[RG48] removes documents whose files are gone, below its roots alone", async () => {
    const base = folder({
      "one/a.md": "a",
      "one/b.md": "b",
      "two/c.md": "c",
      "one-more/d.md": "d",
    });
    const options = optionsFor(base);
    await reportOf(["one", "two", "one-more"], options);
    for (const path of ["one/b.md", "two/c.md", "one-more/d.md"]) rmSync(join(base, path));
    expect(await reportOf(["one"], options)).toMatchObject({ removed: 1 });
    expect(await namesIn(options.store)).toEqual(["one-more/d.md", "one/a.md", "two/c.md"]);
    expect(await reportOf(["**/c*.md"], options)).toMatchObject({ removed: 1 });
    expect(await namesIn(options.store)).toEqual(["one-more/d.md", "one/a.md"]);
  });

  it("[RG48] keeps what is stored of a file that cannot be read", async () => {
    const base = folder({ "a.md": "text", "b.md": "text" });
    const options = optionsFor(base);
    await reportOf(["."], options);
    write(base, { "a.md": new Uint8Array(100) });
    rmSync(join(base, "b.md"));
    const report = await reportOf(["."], options);
    expect(report.failures).toEqual([
      { id: "a.md", reason: expect.stringContaining('Cannot read "a.md": it must be text') },
    ]);
    expect(await namesIn(options.store)).toEqual(["a.md"]);
  });

  it("[RG48] keeps rows of a file with a broken one, and removes them when it is whole", async () => {
    const rows = ["x", "y", "z"].map((id) => JSON.stringify({ id, text: id }));
    const base = folder({ "a.jsonl": rows.join("\n") });
    const options = optionsFor(base);
    await reportOf(["."], options);
    write(base, { "a.jsonl": `${rows[0]}\n{broken\n${rows[2]}` });
    const report = await reportOf(["."], options);
    expect(report).toMatchObject({ failed: 1, removed: 0, unchanged: 2 });
    expect(await namesIn(options.store)).toEqual(["a.jsonl#x", "a.jsonl#y", "a.jsonl#z"]);
    write(base, { "a.jsonl": `${rows[0]}\n${rows[2]}` });
    expect(await reportOf(["."], options)).toMatchObject({ failed: 0, removed: 1 });
    expect(await namesIn(options.store)).toEqual(["a.jsonl#x", "a.jsonl#z"]);
  });

  it("[RG50] names a row that has the name of another file", async () => {
    const base = folder({ "a.jsonl": '{"id":"b.md","text":"row"}', "a.jsonl#b.md": "file" });
    const options = optionsFor(base);
    const settings = { ...options.settings, readers: 1 };
    const report = await reportOf(["a.jsonl#b.md", "a.jsonl"], { ...options, settings });
    expect(report.failures).toMatchObject([{ id: "a.jsonl#b.md" }]);
    expect(await chunksIn(options.store)).toMatchObject([{ text: "file" }]);
  });

  it("[RG49] calls a store that fails again, and ends with its error after a bounded number", async () => {
    const base = folder({ "a.md": prose(1, 30) });
    const unavailable = () => new EngineError("STORE_UNAVAILABLE", "Cannot store: it is full");
    let calls = 0;
    let isBroken = true;
    const flaky = new MemoryStore(() => {
      if (isBroken && calls++ % 3 !== 2) throw unavailable();
    });
    const settings = { attempts: 3, storeBatch: 4 };
    await reportOf(["."], optionsFor(base, { store: flaky, settings }));
    const fresh = optionsFor(base);
    await reportOf(["."], fresh);
    isBroken = false;
    expect(await chunksIn(flaky)).toEqual(await chunksIn(fresh.store));

    let upserts = 0;
    isBroken = true;
    const broken = new MemoryStore((method) => {
      if (method === "upsert" && ++upserts > 3 && isBroken) throw unavailable();
    });
    const options = optionsFor(base, { store: broken, settings });
    await expect(reportOf(["."], options)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(upserts).toBe(3 + 3);
    isBroken = false;
    const embedder = new WordEmbedder();
    await reportOf(["."], { ...options, embedder });
    expect(await chunksIn(broken)).toEqual(await chunksIn(fresh.store));
    expect(embedder.embedded).toHaveLength((await chunksIn(broken)).length - 3 * 4);
  });

  it("[RG49] does not wait where an error cannot pass", async () => {
    const base = folder({ "a.md": "text" });
    let calls = 0;
    const store = new MemoryStore((method) => {
      if (method !== "upsert") return;
      calls++;
      throw new EngineError("CORPUS_INVALID", "Cannot store: the corpus has other vectors");
    });
    const call = reportOf(["."], optionsFor(base, { store }));
    await expect(call).rejects.toMatchObject({ code: "CORPUS_INVALID" });
    expect(calls).toBe(1);
  });

  it("[RG50] tells of each document, and of each file that was not read with the reason", async () => {
    const base = folder({ "a.md": "text", "b.bin": new Uint8Array(64), "c.txt": "" });
    const events = await eventsOf(["."], optionsFor(base));
    expect(events.filter(({ type }) => type === "document")).toEqual([
      { type: "document", id: "c.txt", state: "empty", chunks: 0 },
      { type: "document", id: "a.md", state: "stored", chunks: 1 },
    ]);
    const reason = 'Cannot read "b.bin": it must be text, its 64 bytes are binary data';
    expect(events).toContainEqual({ type: "problem", state: "failed", id: "b.bin", reason });
    expect(events.at(-1)).toMatchObject({
      ...{ type: "report", files: 3, documents: 2, stored: 1, empty: 1, failed: 1 },
      ...{ failures: [{ id: "b.bin", reason }], skips: [], chunksCut: 1, chunksEmbedded: 1 },
    });
  });

  it("[RG51] ends with its signal's reason, and goes on at the next call", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 20 }, (_, at) => [`${at}.md`, prose(at, 5)]),
    );
    const base = folder(files);
    const controller = new AbortController();
    const store = new MemoryStore();
    const settings = { storeBatch: 8, embedBatch: 4 };
    const options = optionsFor(base, { store, settings });
    const reason = new Error("enough");
    const embedder = new WordEmbedder(512, (texts) => {
      if (embedder.embedded.length > 20) controller.abort(reason);
      expect(texts.length).toBeLessThanOrEqual(4);
    });
    const call = eventsOf(["."], { ...options, embedder, signal: controller.signal });
    await expect(call).rejects.toBe(reason);
    await reportOf(["."], options);
    const fresh = optionsFor(base);
    await reportOf(["."], fresh);
    expect(await chunksIn(store)).toEqual(await chunksIn(fresh.store));
  });

  it("[RG51] stops where its events are no longer taken", async () => {
    const base = folder(
      Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`${at}.md`, prose(at, 5)])),
    );
    const { ingest } = await import("#rag/ingest");
    const options = optionsFor(base, { settings: { storeBatch: 1, embedBatch: 1 } });
    for await (const event of ingest(["."], options)) if (event.type === "document") break;
    expect(await namesIn(options.store)).not.toHaveLength(50);
  });

  it("refuses paths that do not exist, and settings and attributes that cannot be", async () => {
    const base = folder();
    const options = optionsFor(base);
    const invalid = { code: "INVALID_ARGUMENT" };
    await expect(reportOf(["missing"], options)).rejects.toMatchObject(invalid);
    const settings = { chunkTokens: 32, overlapTokens: 17 };
    await expect(reportOf(["."], { ...options, settings })).rejects.toMatchObject(invalid);
    const attributes = { "not a name": 1 };
    await expect(reportOf(["."], { ...options, attributes })).rejects.toMatchObject(invalid);
  });
});
