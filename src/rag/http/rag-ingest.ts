/** Uploaded files by `ingest`: each in a folder of its own, called after the file's id. */
import { basename, join } from "node:path";
import type { Embedder } from "#rag/embedders";
import { type IngestSettings, ingest } from "#rag/ingest";
import type { StoredDocument, VectorStore } from "#rag/stores";
import { HttpError } from "#server";
import type { FileIngest, IngestFile, IngestJob, IngestOutcome } from "./file-ingest.ts";
import { serialOf } from "./identifiers.ts";

/** What files are put in with. */
export interface RagIngestParts {
  readonly store: VectorStore;
  readonly embedder: Embedder;
  /** Where the folders of files are, each called after its file's id. */
  readonly folder: string;
  readonly settings?: Partial<IngestSettings>;
}

const BYTES_PER_ELEMENT = 4;
/**
 * Of one document, whose chunks a store gives all at once: 2,400 held up other requests for 166 ms
 * on a busy machine.
 */
const SHOWN_CHUNKS_MAX = 2500;

/** What a call tells of one file. */
interface Told {
  chunks: number;
  /** Why it, or a part of it, could not be read. */
  problem: string | null;
}

export class RagIngest implements FileIngest {
  readonly #parts: RagIngestParts;

  constructor(parts: RagIngestParts) {
    this.#parts = parts;
  }

  async ingest(job: IngestJob, signal: AbortSignal): Promise<readonly IngestOutcome[]> {
    const { store, embedder, folder: base, settings } = this.#parts;
    const { corpus, files, attributes, chunking } = job;
    const told = new Map(files.map(({ id }) => [id, { chunks: 0, problem: null } as Told]));
    const bytesMax = Math.max(1, ...files.map(({ bytes }) => bytes));
    const events = ingest(
      files.map(({ id, path }) => join(id, basename(path))),
      {
        ...{ store, embedder, corpus, base, attributes, signal },
        settings: { readers: 1, ...settings, ...chunking, fileBytesMax: bytesMax },
      },
    );
    for await (const event of events) {
      if (event.type !== "document" && event.type !== "problem") continue;
      const own = told.get(this.fileIdOf(event.id) ?? "");
      if (own === undefined) continue;
      if (event.type === "problem") own.problem ??= event.reason;
      else own.chunks += event.chunks;
    }
    return files.map((file) => this.#outcome(file, told.get(file.id)));
  }

  async remove(corpus: string, fileId: string): Promise<void> {
    for (const { id } of await this.#documentsOf(corpus, fileId)) {
      await this.#parts.store.deleteDocument(corpus, id);
    }
  }

  async texts(corpus: string, fileId: string): Promise<AsyncIterable<readonly string[]>> {
    const documents = await this.#documentsOf(corpus, fileId);
    const chunks = Math.max(0, ...documents.map((document) => document.chunks));
    if (chunks > SHOWN_CHUNKS_MAX) {
      throw new HttpError(
        400,
        "content_too_long",
        `Cannot show content: it may be of ${SHOWN_CHUNKS_MAX} chunks, current value is ` +
          `${chunks}; use GET /v1/files/${fileId}/content`,
      );
    }
    return this.#textsOf(corpus, documents);
  }

  /** Document by document. */
  async *#textsOf(corpus: string, documents: readonly StoredDocument[]) {
    for (const { id } of documents) {
      const chunks = await this.#parts.store.chunksOf(corpus, id);
      yield chunks.map(({ text }) => text);
    }
  }

  fileIdOf(documentId: string): string | null {
    const id = documentId.split("/", 1)[0] ?? "";
    return serialOf("file", id) === null ? null : id;
  }

  /** A file of rows has a document for each; all begin with the file's id. */
  async #documentsOf(corpus: string, fileId: string): Promise<readonly StoredDocument[]> {
    const { store } = this.#parts;
    if ((await store.corpus(corpus)) === null) return [];
    const documents = await store.documents(corpus);
    return documents.filter(({ id }) => id.startsWith(`${fileId}/`));
  }

  #outcome({ filename, bytes, path, id }: IngestFile, told: Told | undefined): IngestOutcome {
    const { chunks = 0, problem = null } = told ?? {};
    if (chunks > 0) {
      const vectorBytes = chunks * this.#parts.embedder.dimensions * BYTES_PER_ELEMENT;
      return { state: "stored", usageBytes: bytes + vectorBytes };
    }
    if (problem === null) {
      const message = `Cannot read ${JSON.stringify(filename)}: it must have text, it has none`;
      return { state: "failed", code: "invalid_file", message };
    }
    const code = /its kind must be known/.test(problem) ? "unsupported_file" : "invalid_file";
    // Clients know the file by its name.
    const known = [path, join(id, basename(path))];
    const message = known.reduce((text, name) => text.replaceAll(name, filename), problem);
    return { state: "failed", code, message };
  }
}
