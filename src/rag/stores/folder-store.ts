/** Corpora in a folder of this machine, without a server: the default store. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import { assert, EngineError, messageOf } from "#base";
import type { Chunk, StoredChunk } from "#rag/texts";
import { closedStore } from "./corpus-errors.ts";
import type { Filter } from "./filter.ts";
import { FolderLock } from "./folder-lock.ts";
import type {
  FolderCall,
  FolderFailure,
  FolderMethod,
  FolderResult,
  FolderThreadData,
  FolderValues,
  FromFolder,
} from "./folder-protocol.ts";
import type {
  CorpusInfo,
  CorpusSpec,
  Hit,
  StoredDocument,
  StoreInfo,
  StoreQuery,
  VectorStore,
} from "./vector-store.ts";

/** How a folder is used. */
export interface FolderStoreOptions {
  /**
   * Elements of vectors that a search compares one by one: more of them are found by an index.
   * Default: 4,194,304, which takes 10 ms.
   */
  readonly exactElements?: number | undefined;
  /** Whether the folder is made where there is none. Default: true. */
  readonly create?: boolean | undefined;
}

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: EngineError) => void;
}

const VERSION = "1";

export class FolderStore implements VectorStore {
  readonly info: StoreInfo;
  readonly #data: FolderThreadData;
  readonly #lock: FolderLock;
  readonly #pending = new Map<number, Pending>();
  /** Null: it ended, and the next call starts another one. */
  #worker: Worker | null;
  /** A thread that is about to take the place of one that ended. */
  #starting: Promise<void> | null = null;
  #nextCall = 0;
  #closing: Promise<void> | null = null;

  private constructor(data: FolderThreadData, lock: FolderLock, started: Started) {
    this.#data = data;
    this.#lock = lock;
    this.#worker = started.worker;
    this.#attend(started.worker);
    this.info = {
      kind: "folder",
      location: data.folder,
      version: VERSION,
      text: "own",
      notes: started.notes,
    };
  }

  /** Opens a folder. Throws STORE_UNAVAILABLE. */
  static async open(folder: string, options: FolderStoreOptions = {}): Promise<FolderStore> {
    if (options.create === false && !existsSync(folder)) throw noStore(folder);
    const data = { folder: resolve(folder), exactElements: options.exactElements ?? null };
    const lock = FolderLock.take(data.folder);
    try {
      return new FolderStore(data, lock, await start(data));
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  create(corpus: CorpusSpec): Promise<void> {
    return this.#call("create", corpus);
  }

  corpora(): Promise<CorpusInfo[]> {
    return this.#call("corpora");
  }

  corpus(name: string): Promise<CorpusInfo | null> {
    return this.#call("corpus", name);
  }

  drop(name: string): Promise<void> {
    return this.#call("drop", name);
  }

  upsert(corpus: string, chunks: readonly StoredChunk[]): Promise<void> {
    return this.#call("upsert", corpus, chunks);
  }

  deleteDocument(corpus: string, id: string, keep?: ReadonlySet<string>): Promise<number> {
    return this.#call("deleteDocument", corpus, id, keep);
  }

  count(corpus: string, filter: Filter | null): Promise<number> {
    return this.#call("count", corpus, filter);
  }

  search(corpus: string, query: StoreQuery): Promise<Hit[]> {
    return this.#call("search", corpus, query);
  }

  documents(corpus: string): Promise<StoredDocument[]> {
    return this.#call("documents", corpus);
  }

  chunksOf(corpus: string, documentId: string): Promise<Chunk[]> {
    return this.#call("chunksOf", corpus, documentId);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    try {
      if (this.#worker !== null) await this.#post("close", []);
      await this.#worker?.terminate();
    } finally {
      this.#lock.release();
    }
  }

  async #call<Method extends FolderMethod>(
    method: Method,
    ...values: FolderValues<Method>
  ): Promise<FolderResult<Method>> {
    if (this.#closing !== null) throw closedStore();
    this.#starting ??= this.#worker === null ? this.#restart() : null;
    await this.#starting;
    // The thread answers with what the method returns there.
    return (await this.#post(method, values)) as FolderResult<Method>;
  }

  #post(method: FolderMethod, values: readonly unknown[]): Promise<unknown> {
    const worker = this.#worker;
    assert(worker !== null, "A call has a thread");
    const call = this.#nextCall++;
    return new Promise((resolve, reject) => {
      this.#pending.set(call, { resolve, reject });
      // A process that waits for an answer stays alive for it.
      worker.ref();
      const message: FolderCall = { call, method, values };
      try {
        worker.postMessage(message);
      } catch (error) {
        // Functions and other things that are no data do not pass between threads.
        this.#answer({ type: "error", call, failure: unsendable(error) });
      }
    });
  }

  async #restart(): Promise<void> {
    try {
      const { worker } = await start(this.#data);
      this.#worker = worker;
      this.#attend(worker);
    } finally {
      this.#starting = null;
    }
  }

  #attend(worker: Worker): void {
    worker.unref();
    worker.on("message", (message: FromFolder) => this.#answer(message));
    const end = (reason: string) => {
      if (this.#worker !== worker) return;
      this.#worker = null;
      const error = unavailable("use the store", `its thread ended: ${reason}; try again`);
      for (const { reject } of this.#pending.values()) reject(error);
      this.#pending.clear();
    };
    worker.on("error", (error) => end(messageOf(error)));
    worker.on("exit", (code) => end(`code ${code}`));
  }

  #answer(message: FromFolder): void {
    if (message.type !== "result" && message.type !== "error") return;
    const pending = this.#pending.get(message.call);
    this.#pending.delete(message.call);
    if (this.#pending.size === 0) this.#worker?.unref();
    if (message.type === "result") pending?.resolve(message.result);
    else pending?.reject(errorOf(message.failure));
  }
}

/** A thread that has opened the folder. */
interface Started {
  readonly worker: Worker;
  readonly notes: readonly string[];
}

function start(data: FolderThreadData): Promise<Started> {
  const name = "perigee-store";
  const worker = new Worker(threadUrl(), { name, execArgv: [], workerData: data });
  return new Promise((resolve, reject) => {
    worker.once("message", (message: FromFolder) => {
      if (message.type === "ready") resolve({ worker, notes: message.notes });
      if (message.type === "failed") reject(errorOf(message.failure));
    });
    worker.once("exit", (code) => {
      reject(unavailable("open the store", `its thread ended with code ${code}; try again`));
    });
    worker.once("error", (error) => {
      reject(unavailable("open the store", `its thread failed: ${messageOf(error)}`, error));
    });
  });
}

/** Node 20 cannot run TypeScript: from source, the thread runs the built file. */
function threadUrl(): URL {
  const isSource = import.meta.url.endsWith(".ts");
  const file = isSource ? "../../../dist/rag/stores/folder-thread.js" : "./folder-thread.js";
  return new URL(file, import.meta.url);
}

function unsendable(error: unknown): FolderFailure {
  const message = `Cannot use the store: values must be plain data, but ${messageOf(error)}`;
  return { code: "INVALID_ARGUMENT", message, param: null };
}

function errorOf({ code, message, param }: FolderFailure): EngineError {
  return new EngineError(code, message, param === null ? {} : { param });
}

function unavailable(action: string, state: string, cause?: unknown): EngineError {
  const message = `Cannot ${action}: it must be open, current value is: ${state}`;
  return new EngineError("STORE_UNAVAILABLE", message, { cause });
}

function noStore(folder: string): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot open the store: ${folder} must be a folder with documents, there is none; ingest ` +
      "documents into it first",
    { param: "store" },
  );
}
