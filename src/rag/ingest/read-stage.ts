/** The first part of a pipeline: files are found, read and cut. */
import { EngineError } from "#base";
import { cutDocument, type Piece, passageOf } from "#rag/chunks";
import {
  type AddressLimits,
  type Found,
  type FoundFile,
  fetchAddress,
  ReaderProcess,
  type ReadJob,
  type ReadProblem,
  walk,
} from "#rag/readers";
import { type Chunk, chunkId, type SourceDocument } from "#rag/texts";
import type { Channel } from "./channel.ts";
import { contentVersion, documentVersion, isWhole } from "./document-version.ts";
import type { CutDocument, IngestRun, StoringWay } from "./ingest-run.ts";
import type { Sources } from "./sources.ts";
import { mappedInTurns } from "./turns.ts";

/** Most memory of vectors of one document that replaces another. */
const VECTOR_BYTES_MAX = 64 * 2 ** 20;

/** A file, or an address of the web. */
type Source = FoundFile | { readonly type: "address"; readonly id: string };

/** Reads everything below roots in several processes; documents come in no order. */
export class ReadStage {
  readonly #run: IngestRun;
  readonly #found: AsyncGenerator<Found | Source>;
  readonly #addressLimits: AddressLimits;
  readonly #output: Channel<CutDocument>;
  readonly #processes = new Set<ReaderProcess>();
  #isClosed = false;

  constructor(run: IngestRun, sources: Sources, output: Channel<CutDocument>) {
    this.#run = run;
    this.#found = this.#allOf(sources);
    this.#addressLimits = sources.addressLimits;
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
        const { value, done } = await this.#found.next();
        if (done === true || this.#isClosed) return;
        await this.#take(value, process);
      }
    } finally {
      this.#processes.delete(process);
      process.close();
    }
  }

  async #take(found: Found | Source, process: ReaderProcess): Promise<void> {
    const { books, attention } = this.#run.parts;
    if (found.type === "failed") return books.failed(found.id, found.reason);
    // A second root may have the same file.
    if (!books.see(found.id)) return;
    if (found.type === "skipped") return books.skipped(found.id, found.reason);
    books.count("files");
    if (found.type === "file" && attention?.isWanted(found.path) === false) {
      return books.keep(found.id);
    }
    for await (const content of this.#contentsOf(found, process)) {
      if ("problem" in content) await books.failed(content.id, content.problem);
      else await this.#cut(content, found.id);
    }
    await books.progress();
  }

  /** A file's documents; the failure of the file is a problem among them. */
  async *#contentsOf(
    source: Source,
    process: ReaderProcess,
  ): AsyncGenerator<SourceDocument | ReadProblem> {
    const { stored } = this.#run.parts;
    const { id } = source;
    let isUnchanged = false;
    try {
      yield* process.read(await this.#jobOf(source), (hash, bytes) => {
        this.#run.parts.books.count("bytes", bytes);
        isUnchanged = isWhole(stored.get(id), contentVersion(hash, this.#run.recipe));
        return !isUnchanged;
      });
    } catch (error) {
      if (this.#isClosed || !(error instanceof EngineError)) throw error;
      yield { id, problem: error.message };
    }
    if (isUnchanged) await this.#leave(id);
  }

  async #jobOf(source: Source): Promise<ReadJob> {
    const { settings, signal } = this.#run.parts;
    const { id } = source;
    const { fileBytesMax: bytesMax } = settings;
    if (source.type === "file") {
      const { path } = source;
      return { id, name: path, path, bytes: null, mediaType: null, bytesMax };
    }
    const { url, bytes, mediaType } = await fetchAddress(id, this.#addressLimits, signal);
    return { id, name: url.pathname, path: null, bytes, mediaType, bytesMax };
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
    const chunks: Chunk[] = await mappedInTurns(pieces, ({ text, place }, index) => ({
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

  async *#allOf({ roots, addresses }: Sources): AsyncGenerator<Found | Source> {
    const { attention } = this.#run.parts;
    for (const root of roots) {
      yield* walk(root, (path, only) => attention?.onFolder(path, only));
    }
    if (attention?.hasAddresses === false) return;
    for (const id of addresses) yield { type: "address", id };
  }
}
