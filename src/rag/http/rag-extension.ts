/** Files, vector stores and `file_search`, as an extension of a server. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { EngineError, messageOf } from "#base";
import type { ServedModel } from "#engine";
import type { Embedder, Reranker } from "#rag/embedders";
import { IngestSettings } from "#rag/ingest";
import { Rag } from "#rag/service";
import { FolderLock, type VectorStore } from "#rag/stores";
import type { Admit, ServerExtension } from "#server";
import { Book } from "./book.ts";
import { RagServing } from "./config.ts";
import { Corpora } from "./corpora.ts";
import { fileRoutes } from "./file-routes.ts";
import { RagIngest } from "./rag-ingest.ts";
import type { Chunking } from "./records.ts";
import { RAG_ROUTES } from "./route-docs.ts";
import type { RouteParts } from "./route-parts.ts";
import { storeFileRoutes } from "./store-file-routes.ts";
import { StoreSearch } from "./store-search.ts";
import { UploadedFiles } from "./uploaded-files.ts";
import { vectorStoreRoutes } from "./vector-store-routes.ts";
import { VectorStores } from "./vector-stores.ts";

/** What an extension is made of; all of it stays its owner's to close. */
export interface RagExtensionParts {
  readonly store: VectorStore;
  readonly embedder: Embedder;
  /** Answers chats. */
  readonly llm: ServedModel;
  readonly reranker?: Reranker | null;
  /** Of uploaded files and records; this process alone may use it. */
  readonly folder: string;
  /** Limits. Default: those of the settings. */
  readonly limits?: Partial<RagLimits>;
  /** How files are read. Default: as `ingest` does. */
  readonly ingest?: Partial<IngestSettings>;
  /** Is told of failures in the background. */
  warn(message: string): void;
  /** Unix time. Default: the system's. */
  nowSeconds?(): number;
}

/** How much is kept, and done at a time. */
export type RagLimits = Pick<
  RagServing,
  "fileBytesMax" | "totalBytesMax" | "filesMax" | "storesMax" | "ingestJobs"
>;

/** How often it is looked for what has expired. */
const EXPIRY_MS = 60_000;
const MS_PER_SECOND = 1000;

/** What an extension holds beside its routes' parts. */
interface Held {
  readonly lock: FolderLock;
  readonly book: Book;
  readonly rag: Rag;
}

export class RagExtension implements ServerExtension, AsyncDisposable {
  readonly fileSearch: StoreSearch;
  readonly routeDocs = RAG_ROUTES;
  readonly #parts: Omit<RouteParts, "admit">;
  readonly #held: Held;
  readonly #timer: NodeJS.Timeout;
  #expiring: Promise<void> = Promise.resolve();

  private constructor(parts: Omit<RouteParts, "admit">, held: Held) {
    this.#parts = parts;
    this.#held = held;
    this.fileSearch = parts.search;
    this.#timer = setInterval(() => this.#expire(), EXPIRY_MS);
    this.#timer.unref();
  }

  /**
   * Opens what the folder has; files that were on their way into vector stores go on. Throws IO,
   * STORE_UNAVAILABLE where another process has the folder, CORPUS_INVALID where vector stores are
   * another embedder's, TOKENIZER_MISSING.
   */
  static async open(parts: RagExtensionParts): Promise<RagExtension> {
    const { folder } = parts;
    await made(folder);
    const lock = FolderLock.take(folder);
    let book: Book | null = null;
    try {
      book = await Book.open(join(folder, "records.jsonl"));
      return await RagExtension.#of(parts, lock, book);
    } catch (error) {
      await book?.close();
      lock.release();
      throw error;
    }
  }

  static async #of(parts: RagExtensionParts, lock: FolderLock, book: Book): Promise<RagExtension> {
    const { store, embedder, llm, reranker = null, folder, warn } = parts;
    const { limits = {}, nowSeconds = systemSeconds } = parts;
    await checkEmbedder(parts, book);
    const settings = RagServing.parse(limits);
    const files = await UploadedFiles.open(book, folder, settings);
    const own = parts.ingest === undefined ? {} : { settings: parts.ingest };
    const ingest = new RagIngest({ store, embedder, folder: files.folder, ...own });
    const corpora = new Corpora({ store, embedder });
    const common = { book, files, ingest, corpora, nowSeconds, warn };
    const stores = new VectorStores({ ...settings, ...common });
    const rag = await Rag.open({ store, embedder, llm, reranker });
    const search = new StoreSearch({ rag, stores, corpora, ingest });
    const chunkingDefault = chunkingOf(embedder, parts.ingest);
    const shared = { files, stores, search, ingest, chunkingDefault, nowSeconds };
    const extension = new RagExtension(shared, { lock, book, rag });
    stores.resume();
    extension.#expire();
    return extension;
  }

  addRoutes(app: FastifyInstance, admit: Admit): void {
    const parts = { ...this.#parts, admit };
    app.register(async (forms) => fileRoutes(forms, parts));
    vectorStoreRoutes(app, parts);
    storeFileRoutes(app, parts);
  }

  /** Ends work in the background; the next process goes on with it. May be called repeatedly. */
  async close(): Promise<void> {
    const { rag, book, lock } = this.#held;
    clearInterval(this.#timer);
    await rag.close();
    await this.#parts.stores.close();
    await this.#expiring;
    await book.close();
    lock.release();
  }

  /** `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #expire(): void {
    this.#expiring = this.#expiring.then(() => this.#parts.stores.expire());
  }
}

async function made(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    const message = `Cannot use ${folder} for files: ${messageOf(error)}; choose another folder`;
    throw new EngineError("IO", message, { cause: error, param: "state" });
  }
}

/** All vector stores are of one embedder: one of them tells. */
async function checkEmbedder({ store, embedder }: RagExtensionParts, book: Book): Promise<void> {
  const [first] = book.stores;
  const corpus = first === undefined ? null : await store.corpus(first.id);
  if (corpus === null || corpus.embedder === embedder.fingerprint) return;
  throw new EngineError(
    "CORPUS_INVALID",
    "Cannot serve vector stores: wanted the embedder that made their vectors " +
      `(${corpus.embedder}), current value is ${embedder.name} (${embedder.fingerprint}); use ` +
      "that one, or another store",
    { param: "embedder" },
  );
}

/** How files are cut that say nothing of it. */
function chunkingOf(
  embedder: Embedder,
  settings: Partial<IngestSettings> | undefined,
): NonNullable<Chunking> {
  const { chunkTokens, overlapTokens } = IngestSettings.parse(settings ?? {});
  const most = Math.min(chunkTokens, embedder.tokensMax);
  return { chunkTokens: most, overlapTokens: Math.min(overlapTokens, most >> 1) };
}

function systemSeconds(): number {
  return Math.floor(Date.now() / MS_PER_SECOND);
}
