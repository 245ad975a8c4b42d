import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import type { Chunk, VectorStore } from "#rag";
import { type IngestEvent, type IngestOptions, type IngestReport, ingest } from "#rag/ingest";
import { MemoryStore } from "../../support/rag-memory-store.ts";
import { WordEmbedder } from "../../support/rag-word-embedder.ts";

/** A folder for one test. */
export function folder(files: Readonly<Record<string, string | Uint8Array>> = {}): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "perigee-ingest-")));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  write(path, files);
  return path;
}

export function write(base: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [name, content] of Object.entries(files)) {
    const path = join(base, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
}

/** Small chunks, short waits, one process. */
export const SMALL = { chunkTokens: 32, overlapTokens: 4, backoffMs: 0, readers: 1 } as const;

/** Options of a call over fakes. */
export function optionsFor(base: string, more: Partial<IngestOptions> = {}): IngestOptions {
  const store = more.store ?? new MemoryStore();
  const embedder = more.embedder ?? new WordEmbedder();
  return { corpus: "c", base, ...more, store, embedder, settings: { ...SMALL, ...more.settings } };
}

/** All events of a call. */
export async function eventsOf(
  paths: readonly string[],
  options: IngestOptions,
): Promise<IngestEvent[]> {
  const events: IngestEvent[] = [];
  for await (const event of ingest(paths, options)) events.push(event);
  return events;
}

/** The report that a call ends with. */
export async function reportOf(
  paths: readonly string[],
  options: IngestOptions,
): Promise<IngestReport> {
  const last = (await eventsOf(paths, options)).at(-1);
  if (last?.type !== "report") throw new Error(`the last event is ${last?.type}`);
  return last;
}

/** All chunks of a corpus, by document and index. */
export async function chunksIn(store: VectorStore, corpus = "c"): Promise<Chunk[]> {
  const documents = await store.documents(corpus);
  return (await Promise.all(documents.map(({ id }) => store.chunksOf(corpus, id)))).flat();
}

/** Names of the documents of a corpus. */
export async function namesIn(store: VectorStore, corpus = "c"): Promise<string[]> {
  return (await store.documents(corpus)).map(({ id }) => id);
}

/** Paragraphs of made-up words, the same for the same seed. */
export function prose(seed: number, paragraphs: number): string {
  let state = seed + 1;
  const next = (most: number) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state % most;
  };
  const word = () => `w${next(997)}`;
  const sentence = () => `${Array.from({ length: 6 + next(8) }, word).join(" ")}.`;
  const paragraph = () => Array.from({ length: 2 + next(3) }, sentence).join(" ");
  return `${Array.from({ length: paragraphs }, paragraph).join("\n\n")}\n`;
}
