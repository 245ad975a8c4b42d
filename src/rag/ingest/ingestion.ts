/** Rounds over the same sources, each of which brings the corpus up to date. */
import { setMaxListeners } from "node:events";
import { EngineError, systemTimer, type Timer } from "#base";
import type { Embedder } from "#rag/embedders";
import type { StoredDocument, VectorStore } from "#rag/stores";
import type { Attributes } from "#rag/texts";
import { type IngestSettings, parseIngestSettings } from "./config.ts";
import type { IngestEvent } from "./events.ts";
import { IngestBooks } from "./ingest-books.ts";
import { type Attention, IngestRun } from "./ingest-run.ts";
import { runPipeline } from "./pipeline.ts";
import { retried } from "./retries.ts";
import { type AddressOptions, type Sources, sourcesOf } from "./sources.ts";

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
  readonly base?: string | undefined;
  /** Of all chunks, beside `kind` and `path`. */
  readonly attributes?: Attributes | undefined;
  /** Allows addresses of the web among the paths; absent, there may be none. */
  readonly addresses?: AddressOptions | undefined;
  readonly settings?: Partial<IngestSettings> | undefined;
  /** Ends the call with its reason; what was stored stays, and the next call goes on from there. */
  readonly signal?: AbortSignal | undefined;
  /** Of waits between calls of a store that fails. */
  readonly timer?: Timer | undefined;
}

/** The sources and options of a call, checked. */
export class Ingestion {
  readonly #options: IngestOptions;
  readonly #settings: IngestSettings;
  readonly #attributes: Attributes;
  readonly #sources: Sources;
  /** What the corpus has; null where it must be asked. */
  #stored: Map<string, StoredDocument> | null = null;

  constructor(paths: readonly string[], options: IngestOptions) {
    this.#options = options;
    this.#settings = parseIngestSettings(options.settings ?? {});
    this.#attributes = checkedAttributes(options.attributes ?? {});
    this.#sources = sourcesOf(paths, options, this.#settings);
  }

  get settings(): IngestSettings {
    return this.#settings;
  }

  /** One round. Its last event is a report; without it the round failed. */
  async *round(attention: Attention | null): AsyncGenerator<IngestEvent, void> {
    const controller = new AbortController();
    const signal = anySignal(this.#options, controller);
    const { store, embedder, corpus, timer = systemTimer } = this.#options;
    const settings = this.#settings;
    const attributes = this.#attributes;
    const stored =
      this.#stored ?? (await storedDocuments(this.#options, { ...settings, timer, signal }));
    this.#stored = null;
    const books = new IngestBooks();
    const parts = { store, embedder, corpus, attributes, settings, timer, signal, books, stored };
    let failure: { readonly reason: unknown } | null = null;
    const working = runPipeline(new IngestRun({ ...parts, attention }), this.#sources)
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
    this.#stored = stored;
  }
}

function anySignal({ signal }: IngestOptions, controller: AbortController): AbortSignal {
  const both =
    signal === undefined ? controller.signal : AbortSignal.any([signal, controller.signal]);
  // A batch of texts listens once for each of them, more than a warning expects.
  setMaxListeners(0, both);
  return both;
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

/** Most attributes of a caller, and the longest value: stores keep some more of them. */
const ATTRIBUTES_MAX = 24;
const VALUE_LENGTH_MAX = 4096;

/** Names have letters, digits, `_` and `-`; values are strings, finite numbers and booleans. */
function checkedAttributes(attributes: Attributes): Attributes {
  for (const [at, [name, value]] of Object.entries(attributes).entries()) {
    const isValue =
      typeof value === "string"
        ? value.length <= VALUE_LENGTH_MAX && value.isWellFormed()
        : typeof value === "boolean" || Number.isFinite(value);
    if (at < ATTRIBUTES_MAX && /^[\w-]{1,64}$/.test(name) && isValue) continue;
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot ingest: attributes must be at most ${ATTRIBUTES_MAX} strings (of at most ` +
        `${VALUE_LENGTH_MAX} characters), numbers and booleans under names of letters, digits, ` +
        `"_" and "-", current value is ${JSON.stringify({ [name]: value })?.slice(0, 200)}`,
      { param: "attributes" },
    );
  }
  return attributes;
}
