import { mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { EngineError } from "#base";
import { type IngestEvent, type IngestOptions, type IngestReport, watch } from "#rag/ingest";
import { MemoryStore } from "../../support/rag-memory-store.ts";
import { folder, namesIn, optionsFor, prose, write } from "./ingest-cases.ts";

/** A watch whose reports are awaited one by one. */
function watching(base: string, options: IngestOptions) {
  const controller = new AbortController();
  const events = watch(["."], { ...options, base, signal: controller.signal });
  onTestFinished(async () => {
    controller.abort();
    await events.return();
  });
  const seen: IngestEvent[] = [];
  /** The next report; null at the end. */
  const report = async (): Promise<IngestReport | null> => {
    for (;;) {
      const { value, done } = await events.next();
      if (done === true) return null;
      seen.push(value);
      if (value.type === "report") return value;
    }
  };
  return {
    controller,
    seen,
    report,
    /** Takes reports until the corpus has documents of these names. */
    async until(store: MemoryStore, names: readonly string[]): Promise<void> {
      while (JSON.stringify(await namesIn(store)) !== JSON.stringify(names)) {
        if ((await report()) === null) throw new Error("it ended");
      }
    },
  };
}

describe("watch", () => {
  it("[RG53] follows changed, new, renamed and removed files, and reads no others", async () => {
    const base = folder({
      "a.md": prose(1, 4),
      "in/b.md": "b",
      "rows.jsonl": '{"id":1,"x":"y"}\n',
    });
    const store = new MemoryStore();
    const { report, until, seen } = watching(base, optionsFor(base, { store }));
    expect(await report()).toMatchObject({ stored: 3 });
    seen.length = 0;
    write(base, { "a.md": prose(2, 4) });
    while (!seen.some((event) => event.type === "document")) await report();
    write(base, { "in/c.md": "c" });
    await until(store, ["a.md", "in/b.md", "in/c.md", "rows.jsonl#1"]);
    renameSync(join(base, "in/b.md"), join(base, "in/d.md"));
    await until(store, ["a.md", "in/c.md", "in/d.md", "rows.jsonl#1"]);
    mkdirSync(join(base, "new/deep"), { recursive: true });
    write(base, { "new/deep/e.md": "e" });
    await until(store, ["a.md", "in/c.md", "in/d.md", "new/deep/e.md", "rows.jsonl#1"]);
    write(base, { "new/deep/f.md": "f" });
    rmSync(join(base, "in"), { recursive: true });
    await until(store, ["a.md", "new/deep/e.md", "new/deep/f.md", "rows.jsonl#1"]);
    write(base, { ".gitignore": "new/\n" });
    await until(store, ["a.md", "rows.jsonl#1"]);
    const read = seen.filter((event) => event.type === "document" && event.state !== "removed");
    const ids = read.map((event) => (event.type === "document" ? event.id : ""));
    expect(new Set(ids)).toEqual(
      new Set(["a.md", "in/c.md", "in/d.md", "new/deep/e.md", "new/deep/f.md"]),
    );
  });

  it("[RG53] asks the store for its documents once", async () => {
    const base = folder({ "a.md": "a" });
    const methods: string[] = [];
    const store = new MemoryStore((method) => void methods.push(method));
    const { report } = watching(base, optionsFor(base, { store }));
    await report();
    write(base, { "a.md": "b" });
    while (methods.filter((method) => method === "upsert").length < 2) await report();
    expect(methods.filter((method) => method === "documents")).toHaveLength(1);
    expect(await store.chunksOf("c", "a.md")).toMatchObject([{ text: "b" }]);
  });

  it("[RG53] follows a single file among others", async () => {
    const base = folder({ "a.md": "a", "b.md": "b" });
    const store = new MemoryStore();
    const controller = new AbortController();
    const options = { ...optionsFor(base, { store }), signal: controller.signal };
    const found: string[] = [];
    for await (const event of watch(["a.md"], options)) {
      if (event.type !== "report") continue;
      const [chunk] = await store.chunksOf("c", "a.md");
      found.push(chunk?.text ?? "");
      if (chunk?.text === "a") write(base, { "b.md": "other", "a.md": "changed" });
      if (chunk?.text === "changed") controller.abort();
    }
    expect(found).toContain("changed");
    expect(await namesIn(store)).toEqual(["a.md"]);
  });

  it("[RG53] ends with its signal while it waits, and with the error of a store", async () => {
    const base = folder({ "a.md": "a" });
    const { controller, report } = watching(base, optionsFor(base));
    await report();
    controller.abort();
    expect(await report()).toBeNull();

    const broken = new MemoryStore((method) => {
      if (method === "upsert") throw new EngineError("CORPUS_INVALID", "Cannot store: no room");
    });
    const failing = watching(base, optionsFor(base, { store: broken }));
    await expect(failing.report()).rejects.toMatchObject({ code: "CORPUS_INVALID" });
  });
});
