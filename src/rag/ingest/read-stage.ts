/** The first part of a pipeline: files are found, read and cut. */
import { EngineError } from "#base";
import { Chunker, type Piece, passageOf } from "#rag/chunks";
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

/** Rows of a file that are cut together, and about their length in UTF-16 units. */
const CUT_TOGETHER = 128;
const CUT_LENGTH = 2 ** 18;

/** A file, or an address of the web. */
type Source = FoundFile | { readonly type: "address"; readonly id: string };

/** Reads everything below roots in several processes; documents come in no order. */
export class ReadStage {
  readonly #run: IngestRun;
  readonly #found: AsyncGenerator<Found | Source>;
  readonly #addressLimits: AddressLimits;
  readonly #chunker: Chunker;
  readonly #output: Channel<CutDocument>;
  readonly #processes = new Set<ReaderProcess>();
  #isClosed = false;

  constructor(run: IngestRun, sources: Sources, output: Channel<CutDocument>) {
    this.#run = run;
    this.#found = this.#allOf(sources);
    this.#addressLimits = sources.addressLimits;
    const { embedder, signal } = run.parts;
    this.#chunker = new Chunker(run.limits, (texts) =>
      run.retried(() => embedder.countTokens(texts, { signal })),
    );
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
    const waiting: SourceDocument[] = [];
    for await (const content of this.#contentsOf(found, process)) {
      if ("problem" in content) {
        // A broken row does not say which document it was.
        books.keep(found.id);
        await books.failed(content.id, content.problem);
      } else if (await this.#isNew(content, found.id)) waiting.push(content);
      if (isMuch(waiting)) await this.#cut(waiting.splice(0), found.id);
    }
    if (waiting.length > 0) await this.#cut(waiting, found.id);
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

  /** Whether a document must be cut; others are noted. */
  async #isNew({ id, hash }: SourceDocument, path: string): Promise<boolean> {
    const { books, stored } = this.#run.parts;
    if (id !== path && !books.see(id)) {
      await books.failed(id, `Cannot store ${JSON.stringify(id)}: its name must be its own`);
      return false;
    }
    if (!isWhole(stored.get(id), contentVersion(hash, this.#run.recipe))) return true;
    await this.#leave(id);
    return false;
  }

  async #cut(documents: readonly SourceDocument[], path: string): Promise<void> {
    const { books } = this.#run.parts;
    const pieces = await this.#chunker.cut(documents);
    for (const [at, document] of documents.entries()) {
      const own = pieces[at] ?? [];
      books.count("documents");
      books.count("chunksCut", own.length);
      await this.#output.add(await this.#planned(document, path, own));
    }
  }

  async #planned(
    document: SourceDocument,
    path: string,
    pieces: readonly Piece[],
  ): Promise<CutDocument> {
    const { id, hash } = document;
    const content = contentVersion(hash, this.#run.recipe);
    const version = documentVersion(content, pieces.length);
    const own = document.attributes;
    const { kind = "text" } = own;
    const attributes = { ...own, ...this.#run.parts.attributes, kind, path };
    const chunks: Chunk[] = await mappedInTurns(pieces, ({ text, place }, index) => ({
      ...{ id: chunkId(id, index, text), documentId: id, documentHash: version },
      ...{ index, text, place, attributes },
    }));
    const present = await this.#present(id, version, chunks);
    const passages = await mappedInTurns(pieces, ({ text, place, isHeaded }, index) => {
      if (present?.has(chunks[index]?.id ?? "") === true) return null;
      return { index, passage: isHeaded ? passageOf(text, place.headings) : text };
    });
    const missing = passages.filter((passage) => passage !== null);
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

/** Whether documents of one file are enough to be cut together. */
function isMuch(documents: readonly SourceDocument[]): boolean {
  const last = documents.at(-1)?.sections[0]?.text.length ?? 0;
  return documents.length >= CUT_TOGETHER || documents.length * last >= CUT_LENGTH;
}
