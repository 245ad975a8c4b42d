/** The log of changes of a corpus in a folder, SQLite's. */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openStore } from "#rag/stores";
import { byText, byVector, chunkOf, DIMENSIONS } from "./corpus-cases.ts";

const TEXT_WORDS = 400;
const BATCH = 100;
const BATCHES = 20;
/** SQLite takes its log in at 4 MB, and writes at most one transaction on. */
const LOG_BYTES_MAX = 8 * 2 ** 20;

/** Bytes of the files of all corpora whose names end so. */
function bytesOf(folder: string, ending: string): number {
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" });
  const own = files.filter((name) => name.endsWith(ending));
  return own.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

test("[RG121] the log is taken in while much is written, searched and read", async () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-log-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const store = await openStore(folder);
  onTestFinished(() => store.close());
  const corpus = "log";
  await store.create({ name: corpus, dimensions: DIMENSIONS, embedder: "embedder-1" });
  for (let batch = 0; batch < BATCHES; batch++) {
    const chunks = Array.from({ length: BATCH }, (_, index) => {
      const words = Array.from({ length: TEXT_WORDS }, (_, at) => `word${batch}x${index}x${at}`);
      return chunkOf({ document: `document-${batch}`, index, text: words.join(" ") });
    });
    await store.upsert(corpus, chunks);
    await store.search(corpus, byText(`word${batch}x1x1`));
    await store.search(corpus, byVector([1, batch, 0, 0]));
    expect(bytesOf(folder, "-wal")).toBeLessThan(LOG_BYTES_MAX);
  }
  expect(bytesOf(folder, ".sqlite")).toBeGreaterThan(LOG_BYTES_MAX);
});
