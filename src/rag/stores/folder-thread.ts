/**
 * The thread of a store in a folder: reading, writing and comparing vectors do not hold up the
 * thread that calls. Calls are answered in order; what can wait is done between them.
 */
import { parentPort, workerData } from "node:worker_threads";
import { assert, EngineError, messageOf } from "#base";
import { FolderCorpora } from "./folder-corpora.ts";
import type {
  FolderCall,
  FolderFailure,
  FolderMethod,
  FolderResult,
  FolderThreadData,
  FolderValues,
  FromFolder,
} from "./folder-protocol.ts";
import type { Usearch } from "./vector-index.ts";

type Methods = {
  readonly [Method in FolderMethod]: (...values: FolderValues<Method>) => FolderResult<Method>;
};

assert(parentPort !== null, "It runs in a thread");
const port = parentPort;

function post(message: FromFolder): void {
  port.postMessage(message);
}

function failureOf(error: unknown): FolderFailure {
  if (error instanceof EngineError) {
    return { code: error.code, message: error.message, param: error.param };
  }
  return { code: "STORE_UNAVAILABLE", message: messageOf(error), param: null };
}

/** Null: this platform lacks the library. */
async function loadUsearch(): Promise<Usearch | null> {
  try {
    return await import("usearch");
  } catch {
    return null;
  }
}

function methodsOf(corpora: FolderCorpora): Methods {
  return {
    create: (spec) => corpora.create(spec),
    corpora: () => corpora.corpora(),
    corpus: (name) => corpora.corpus(name),
    drop: (name) => corpora.drop(name),
    upsert: (name, chunks) => corpora.with(name, "store chunks", (corpus) => corpus.upsert(chunks)),
    deleteDocument: (name, id, keep = new Set()) =>
      corpora.with(name, "remove a document", (corpus) => corpus.deleteDocument(id, keep)),
    count: (name, filter) => corpora.with(name, "count chunks", (corpus) => corpus.count(filter)),
    search: (name, query) => corpora.with(name, "search", (corpus) => corpus.search(query)),
    documents: (name) => corpora.with(name, "list documents", (corpus) => corpus.documents()),
    chunksOf: (name, id) => corpora.with(name, "read a document", (corpus) => corpus.chunksOf(id)),
    close: () => corpora.close(),
  };
}

function serve(corpora: FolderCorpora): void {
  const methods = methodsOf(corpora);
  let isWorking = false;
  const work = () => {
    isWorking = corpora.work();
    if (isWorking) setImmediate(work);
  };
  port.on("message", ({ call, method, values }: FolderCall) => {
    try {
      // Values come from the store's own methods, whose types these are.
      const run = methods[method] as (...values: readonly unknown[]) => unknown;
      const result = run(...values);
      post({ type: "result", call, result });
    } catch (error) {
      post({ type: "error", call, failure: failureOf(error) });
    }
    if (method === "close") return port.close();
    if (!isWorking) setImmediate(work);
    isWorking = true;
  });
}

const { folder, exactElements } = workerData as FolderThreadData;
const usearch = await loadUsearch();
try {
  const corpora = new FolderCorpora(folder, { usearch, exactElements });
  const note = "usearch is not installed for this platform: all vectors are compared one by one";
  serve(corpora);
  post({ type: "ready", notes: usearch === null ? [note] : [] });
} catch (error) {
  post({ type: "failed", failure: failureOf(error) });
}
