/**
 * The last part of a pipeline: chunks with vectors are stored so that it can be told at any time
 * which documents are there as a whole (document-version.ts).
 *
 * A changed document's new chunks are first stored beside the old ones under a version of no whole
 * document; then the old ones are removed, and then the new ones are stored again under their own.
 * A document of one chunk needs no such version: with the old ones it has more than one.
 */
import type { StoredChunk } from "#rag/texts";
import type { Channel } from "./channel.ts";
import { documentVersion, unfinishedVersion } from "./document-version.ts";
import type { CutDocument, EmbeddedChunk, IngestRun } from "./ingest-run.ts";

/** Chunks wait no longer for others that could be stored with them. */
const WAIT_MS = 2000;

interface Waiting {
  readonly document: CutDocument;
  readonly chunk: StoredChunk;
}

/** How far a document is. */
interface Progress {
  /** Chunks that are not stored yet, in this round. */
  left: number;
  /** Of a replacement: all chunks with their own version, for the second round. */
  readonly second: StoredChunk[] | null;
  isSecond: boolean;
}

/** Stores chunks in batches, whatever documents they are of. */
export class StoreStage {
  readonly #run: IngestRun;
  readonly #progress = new Map<CutDocument, Progress>();
  #waiting: Waiting[] = [];
  #sinceMs = 0;

  constructor(run: IngestRun) {
    this.#run = run;
  }

  async work(input: Channel<readonly EmbeddedChunk[]>): Promise<void> {
    for await (const batch of input) {
      for (const { document, part } of batch) {
        if (part === null) await this.#finish(document);
        else await this.#take(document, part.index, part.vector);
      }
      const isLong = performance.now() - this.#sinceMs > WAIT_MS;
      if (this.#waiting.length > 0 && isLong) await this.#store();
    }
    while (this.#waiting.length > 0) await this.#store();
  }

  async #take(document: CutDocument, index: number, vector: Float32Array): Promise<void> {
    const chunk = document.chunks[index];
    if (chunk === undefined) throw new Error(`${document.id} has no chunk ${index}`);
    const progress = this.#progress.get(document) ?? (await this.#begin(document));
    const stored: StoredChunk = { ...chunk, vector };
    progress.second?.push(stored);
    const documentHash = unfinishedVersion(document.content);
    await this.#add(document, progress.second === null ? stored : { ...stored, documentHash });
  }

  async #begin(document: CutDocument): Promise<Progress> {
    if (document.way === "renew") await this.#removeOthers(document, new Set());
    const isTwice = document.way === "replace" && document.chunks.length > 1;
    const second = isTwice ? [] : null;
    const progress = { left: document.missing.length, second, isSecond: false };
    this.#progress.set(document, progress);
    return progress;
  }

  async #add(document: CutDocument, chunk: StoredChunk): Promise<void> {
    if (this.#waiting.length === 0) this.#sinceMs = performance.now();
    this.#waiting.push({ document, chunk });
    if (this.#waiting.length >= this.#run.parts.settings.storeBatch) await this.#store();
  }

  async #store(): Promise<void> {
    const { store, corpus, books } = this.#run.parts;
    const batch = this.#waiting;
    this.#waiting = [];
    const chunks = batch.map(({ chunk }) => chunk);
    await this.#run.retried(() => store.upsert(corpus, chunks));
    await books.progress();
    const done: CutDocument[] = [];
    for (const { document } of batch) {
      const progress = this.#progress.get(document);
      if (progress === undefined) continue;
      if (!progress.isSecond) books.count("chunksStored");
      if (--progress.left === 0) done.push(document);
    }
    for (const document of done) await this.#endRound(document);
  }

  async #endRound(document: CutDocument): Promise<void> {
    const progress = this.#progress.get(document);
    if (progress === undefined) return;
    const { second, isSecond } = progress;
    if (second === null || isSecond) return this.#finish(document);
    await this.#removeOthers(document, new Set(document.chunks.map(({ id }) => id)));
    progress.isSecond = true;
    progress.left = second.length;
    for (const chunk of second) await this.#add(document, chunk);
  }

  async #finish(document: CutDocument): Promise<void> {
    const { books, stored } = this.#run.parts;
    const { id, chunks, way } = document;
    const isSecond = this.#progress.get(document)?.isSecond === true;
    this.#progress.delete(document);
    const hasOthers = way === "replace" && !isSecond && stored.has(id);
    if (hasOthers) await this.#removeOthers(document, new Set(chunks.map((chunk) => chunk.id)));
    const hash = documentVersion(document.content, chunks.length);
    if (chunks.length === 0) stored.delete(id);
    else stored.set(id, { id, hash, chunks: chunks.length });
    await books.settled(id, chunks.length === 0 ? "empty" : "stored", chunks.length);
  }

  async #removeOthers({ id }: CutDocument, keep: ReadonlySet<string>): Promise<void> {
    const { store, corpus } = this.#run.parts;
    await this.#run.retried(() => store.deleteDocument(corpus, id, keep));
  }
}
