/** The first part of a pipeline: files are found, read and cut. */
import { EngineError } from "#base";
import { cutDocument, type Piece, passageOf } from "#rag/chunks";
import { type Found, ReaderProcess, type ReadProblem, type Root, walk } from "#rag/readers";
import { type Chunk, chunkId, type SourceDocument } from "#rag/texts";
import type { Channel } from "./channel.ts";
import { contentVersion, documentVersion, isWhole } from "./document-version.ts";
import type { CutDocument, IngestRun, StoringWay } from "./ingest-run.ts";

/** Most memory of vectors of one document that replaces another. */
const VECTOR_BYTES_MAX = 64 * 2 ** 20;

/** Reads everything below roots in several processes; documents come in no order. */
export class ReadStage {
  readonly #run: IngestRun;
  readonly #files: AsyncGenerator<Found>;
  readonly #output: Channel<CutDocument>;
  readonly #processes = new Set<ReaderProcess>();
  #isClosed = false;

  constructor(run: IngestRun, roots: readonly Root[], output: Channel<CutDocument>) {
    this.#run = run;
    this.#files = walkAll(roots);
    this.#output = output;
  }

  async work(): Promise<void> {
    const { readers } = this.#run.parts.settings;
    await Promise.all(Array.from({ length: readers }, () => this.#readFiles()));
    this.#output.close();
  }

  /** Ends all reading; `work` rejects or ends soon. */
  close(): void {
    this.#isClosed = true;
    for (const process of this.#processes) process.close();
  }

  async #readFiles(): Promise<void> {
    const { fileSeconds, readerMemoryBytes } = this.#run.parts.settings;
    const process = new ReaderProcess({ seconds: fileSeconds, memoryBytes: readerMemoryBytes });
    this.#processes.add(process);
    try {
      while (!this.#isClosed) {
        const { value, done } = await this.#files.next();
        if (done === true || this.#isClosed) return;
        await this.#take(value, process);
      }
    } finally {
      this.#processes.delete(process);
      process.close();
    }
  }

  async #take(found: Found, process: ReaderProcess): Promise<void> {
    const { books } = this.#run.parts;
    if (found.type === "failed") return books.failed(found.id, found.reason);
    // A second root may have the same file.
    if (!books.see(found.id)) return;
    if (found.type === "skipped") return books.skipped(found.id, found.reason);
    books.count("files");
    for await (const content of this.#contentsOf(found, process)) {
      if ("problem" in content) await books.failed(content.id, content.problem);
      else await this.#cut(content, found.id);
    }
    await books.progress();
  }

  /** A file's documents; the failure of the file is a problem among them. */
  async *#contentsOf(
    { id, path }: Extract<Found, { readonly type: "file" }>,
    process: ReaderProcess,
  ): AsyncGenerator<SourceDocument | ReadProblem> {
    const { settings, stored } = this.#run.parts;
    const { fileBytesMax: bytesMax } = settings;
    let isUnchanged = false;
    try {
      const job = { id, name: path, path, bytes: null, mediaType: null, bytesMax };
      yield* process.read(job, (hash) => {
        isUnchanged = isWhole(stored.get(id), contentVersion(hash, this.#run.recipe));
        return !isUnchanged;
      });
    } catch (error) {
      if (this.#isClosed || !(error instanceof EngineError)) throw error;
      yield { id, problem: error.message };
    }
    if (isUnchanged) await this.#leave(id);
  }

  async #leave(id: string): Promise<void> {
    const { books, stored } = this.#run.parts;
    books.count("documents");
    await books.settled(id, "unchanged", stored.get(id)?.chunks ?? 0);
  }

  async #cut(document: SourceDocument, path: string): Promise<void> {
    const { books, stored, embedder, signal } = this.#run.parts;
    const { id } = document;
    books.see(id);
    const content = contentVersion(document.hash, this.#run.recipe);
    if (isWhole(stored.get(id), content)) return this.#leave(id);
    books.count("documents");
    const pieces = await cutDocument(document, this.#run.limits, (texts) =>
      this.#run.retried(() => embedder.countTokens(texts, { signal })),
    );
    books.count("chunksCut", pieces.length);
    await this.#output.add(await this.#planned(document, path, content, pieces));
  }

  async #planned(
    document: SourceDocument,
    path: string,
    content: string,
    pieces: readonly Piece[],
  ): Promise<CutDocument> {
    const { id } = document;
    const version = documentVersion(content, pieces.length);
    const attributes = { ...document.attributes, ...this.#run.parts.attributes, path };
    const chunks: Chunk[] = pieces.map(({ text, place }, index) => ({
      ...{ id: chunkId(id, index, text), documentId: id, documentHash: version },
      ...{ index, text, place, attributes },
    }));
    const present = await this.#present(id, version, chunks);
    const missing = pieces.flatMap(({ text, place, isHeaded }, index) => {
      if (present?.has(chunks[index]?.id ?? "") === true) return [];
      return [{ index, passage: isHeaded ? passageOf(text, place.headings) : text }];
    });
    return { id, content, chunks, missing, way: present === null ? this.#way(pieces) : "add" };
  }

  /** Chunks of the same version that are stored; null: there are others, too. */
  async #present(
    id: string,
    version: string,
    chunks: readonly Chunk[],
  ): Promise<ReadonlySet<string> | null> {
    const { store, corpus, stored } = this.#run.parts;
    const before = stored.get(id);
    if (before === undefined) return new Set();
    if (before.hash !== version) return null;
    const wanted = new Set(chunks.map((chunk) => chunk.id));
    const present = await this.#run.retried(() => store.chunksOf(corpus, id));
    const areOurs = present.every((one) => one.documentHash === version && wanted.has(one.id));
    return areOurs ? new Set(present.map((one) => one.id)) : null;
  }

  #way(pieces: readonly Piece[]): StoringWay {
    const vectorBytes = pieces.length * this.#run.parts.embedder.dimensions * 4;
    return vectorBytes > VECTOR_BYTES_MAX ? "renew" : "replace";
  }
}

async function* walkAll(roots: readonly Root[]): AsyncGenerator<Found> {
  for (const root of roots) yield* walk(root);
}
