/** Files and folders become stored chunks. */
import { resolve } from "node:path";
import { EngineError, systemTimer, type Timer } from "#base";
import type { Embedder } from "#rag/embedders";
import { isBelow, type Root, rootsOf } from "#rag/readers";
import type { StoredDocument, VectorStore } from "#rag/stores";
import type { Attributes } from "#rag/texts";
import { Channel } from "./channel.ts";
import { type IngestSettings, parseIngestSettings } from "./config.ts";
import { EmbedStage } from "./embed-stage.ts";
import type { IngestEvent } from "./events.ts";
import { IngestBooks } from "./ingest-books.ts";
import { type CutDocument, type EmbeddedChunk, IngestRun } from "./ingest-run.ts";
import { ReadStage } from "./read-stage.ts";
import { retried } from "./retries.ts";
import { StoreStage } from "./store-stage.ts";

/** Where documents go, and how. */
export interface IngestOptions {
  readonly store: VectorStore;
  /** Made unless it exists; an existing one must be of the same embedder. */
  readonly corpus: string;
  readonly embedder: Embedder;
  /**
   * The folder that names of documents begin at; the working folder by default. Names of files
   * elsewhere are their absolute paths.
   */
  readonly base?: string;
  /** Of all chunks, beside `kind` and `path`. */
  readonly attributes?: Attributes;
  readonly settings?: Partial<IngestSettings>;
  /** Ends the call with its reason; what was stored stays, and the next call goes on from there. */
  readonly signal?: AbortSignal;
  /** Of waits between calls of a store that fails. */
  readonly timer?: Timer;
}

/** Documents, and batches of chunks, that wait for the next part of the pipeline. */
const DOCUMENTS_AHEAD = 4;
const BATCHES_AHEAD = 4;

/**
 * Brings a corpus up to date with files, folders and patterns: reads what is new or changed, and
 * removes documents below them whose files are gone. Reading, embedding and storing overlap; they
 * wait while events are not taken. Progress is in the store alone: after an error, a cancellation
 * or the end of the process, the same call goes on where the last one stopped.
 *
 * Throws INVALID_ARGUMENT, CORPUS_INVALID, the store's or embedder's error after a bounded number
 * of calls, or the signal's reason. A file that cannot be read is no error: it is in the report.
 */
export async function* ingest(
  paths: readonly string[],
  options: IngestOptions,
): AsyncGenerator<IngestEvent, void> {
  const settings = parseIngestSettings(options.settings ?? {});
  const attributes = checkedAttributes(options.attributes ?? {});
  const roots = rootsOf(paths, resolve(options.base ?? "."));
  const controller = new AbortController();
  const { signal, timer = systemTimer } = { ...options, signal: anySignal(options, controller) };
  const { store, embedder, corpus } = options;
  const stored = await storedDocuments(options, { ...settings, timer, signal });
  const books = new IngestBooks();
  const parts = { store, embedder, corpus, attributes, settings, timer, signal, books, stored };
  let failure: { readonly reason: unknown } | null = null;
  const working = work(new IngestRun(parts), roots)
    .catch((reason: unknown) => {
      failure = { reason };
    })
    .finally(() => books.events.close());
  try {
    yield* books.events;
  } finally {
    controller.abort(new EngineError("ABORTED", "Cannot ingest: its events must be taken"));
    books.events.fail(signal.reason);
    await working;
  }
  if (failure !== null) throw (failure as { readonly reason: unknown }).reason;
}

function anySignal({ signal }: IngestOptions, controller: AbortController): AbortSignal {
  return signal === undefined ? controller.signal : AbortSignal.any([signal, controller.signal]);
}

/** The corpus is made, and tells what it has. */
async function storedDocuments(
  { store, embedder, corpus }: IngestOptions,
  retry: Parameters<typeof retried>[1],
): Promise<Map<string, StoredDocument>> {
  const { dimensions, fingerprint } = embedder;
  const spec = { name: corpus, dimensions, embedder: fingerprint };
  await retried(() => store.create(spec), retry);
  const documents = await retried(() => store.documents(corpus), retry);
  return new Map(documents.map((document) => [document.id, document]));
}

/** All parts at the same time; the first failure ends the others. */
async function work(run: IngestRun, roots: readonly Root[]): Promise<void> {
  const { signal, books } = run.parts;
  const cut = new Channel<CutDocument>(DOCUMENTS_AHEAD);
  const embedded = new Channel<readonly EmbeddedChunk[]>(BATCHES_AHEAD);
  const reading = new ReadStage(run, roots, cut);
  const stop = (reason: unknown) => {
    cut.fail(reason);
    embedded.fail(reason);
    reading.close();
  };
  const onAbort = () => stop(signal.reason);
  signal.addEventListener("abort", onAbort);
  if (signal.aborted) onAbort();
  const stages = [
    reading.work(),
    new EmbedStage(run, embedded).work(cut),
    new StoreStage(run).work(embedded),
  ];
  try {
    await firstFailure(stages, stop);
    signal.throwIfAborted();
    await removeGone(run, roots);
    await books.events.add({ type: "report", ...books.report() });
  } catch (error) {
    // What was ended fails in its own way.
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Waits for all; throws the reason of the one that failed first. */
async function firstFailure(
  stages: readonly Promise<void>[],
  stop: (reason: unknown) => void,
): Promise<void> {
  let first: { readonly reason: unknown } | null = null;
  const noted = stages.map((stage) =>
    stage.catch((reason: unknown) => {
      first ??= { reason };
      stop(reason);
    }),
  );
  await Promise.all(noted);
  if (first !== null) throw (first as { readonly reason: unknown }).reason;
}

/** Removes documents below the roots whose files are no longer there. */
async function removeGone(run: IngestRun, roots: readonly Root[]): Promise<void> {
  const { store, corpus, stored, books } = run.parts;
  for (const { id, chunks } of stored.values()) {
    if (!books.mayBeGone(id) || !roots.some((root) => isBelow(root, id))) continue;
    await run.retried(() => store.deleteDocument(corpus, id));
    await books.settled(id, "removed", chunks);
  }
}

/** Names have letters, digits, `_` and `-`; values are strings, finite numbers and booleans. */
function checkedAttributes(attributes: Attributes): Attributes {
  for (const [name, value] of Object.entries(attributes)) {
    const isValue = ["string", "boolean"].includes(typeof value) || Number.isFinite(value);
    if (/^[\w-]{1,64}$/.test(name) && isValue) continue;
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot ingest: attributes must be strings, numbers and booleans under names of letters, " +
        `digits, "_" and "-", current value is ${JSON.stringify({ [name]: value })?.slice(0, 200)}`,
      { param: "attributes" },
    );
  }
  return attributes;
}
