import { setMaxListeners } from "node:events";
import { EngineError, requireOptions } from "#base";
import { LLM, type ModelInfo, type ServedModel } from "#engine";
import {
  type Answer,
  Answerer,
  type AskEvent,
  type AskFields,
  type AskSettings,
  byBestQuote,
  parseAskSettings,
  preambleWith,
  standaloneQuestion,
  type Turn,
} from "#rag/answering";
import { type Embedder, LocalReranker, openEmbedder, type Reranker } from "#rag/embedders";
import { type IngestEvent, type IngestOptions, ingest } from "#rag/ingest";
import {
  type CorpusInfo,
  type Filter,
  openStore,
  type StoredDocument,
  type StoreInfo,
  type VectorStore,
} from "#rag/stores";
import { parseSearchSettings, type SearchFields, type SearchSettings } from "./config.ts";
import { LazyPart } from "./lazy-part.ts";
import { type FoundChunk, fitting, retrieve } from "./retriever.ts";

/** The corpus of calls that name none. */
export const CORPUS_DEFAULT = "default";

/** The embedder that comes with the package. */
export const EMBEDDER_DEFAULT = "embedder";

/**
 * Parts of a `Rag`. Names are opened here, at their first use, and closed with it; objects stay
 * their owner's to close.
 */
export interface RagOptions {
  /** A store; or a folder, or the address of a Milvus server. */
  readonly store: VectorStore | string;
  /** An embedder, or the model that `openEmbedder` opens. Default: the bundled one. */
  readonly embedder?: Embedder | string | undefined;
  /** Answers questions: a model, or what `LLM.load` loads. Null: `ask` is refused. */
  readonly llm?: ServedModel | string | null | undefined;
  /** Orders what a search found: a cross-encoder, or the model of one. Default: none. */
  readonly reranker?: Reranker | string | null | undefined;
  /** Whether a folder is made where there is none. Default: true. */
  readonly create?: boolean | undefined;
}

/** What every call may say. */
export interface CallOptions {
  /** One, or several that are searched together. Default: `default`. */
  readonly corpus?: string | readonly string[] | undefined;
  /** The call rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `search`. */
export interface SearchOptions extends CallOptions, SearchFields {
  /** By attributes of chunks. Default: all chunks. */
  readonly filter?: Filter | null | undefined;
}

/** Options of `ask`. */
export interface AskOptions extends CallOptions, AskFields {
  /** By attributes of chunks. Default: all chunks. */
  readonly filter?: Filter | null | undefined;
  /** How passages are searched for. Default: by meaning and by words. */
  readonly mode?: SearchSettings["mode"] | undefined;
  /** Chunks that the reranker reads. Default: 30. */
  readonly candidates?: number | undefined;
  /** What the model is told beside the rules of answering; `preamble` replaces both. */
  readonly instructions?: string | null | undefined;
  /** The conversation before the question, oldest first. Default: none. */
  readonly turns?: readonly Turn[] | undefined;
}

/** Options of `ingest`. */
export interface RagIngestOptions
  extends Omit<CallOptions, "corpus">,
    Pick<IngestOptions, "base" | "attributes" | "settings"> {
  /** Default: `default`. */
  readonly corpus?: string | undefined;
}

/** What a store holds. */
export interface RagStatus {
  readonly store: StoreInfo;
  readonly corpora: readonly CorpusInfo[];
}

/** Chunks that are searched for each source where no reranker looks at them: sentences decide. */
const CANDIDATES_PER_SOURCE = 3;
/** UTF-16 units of a question or query, and turns of a conversation. */
const QUESTION_MAX = 20_000;
const TURNS_MAX = 1000;

/**
 * One's own documents: put in, searched, and asked. Any number of calls at a time. What is left
 * early (`break` in a `for await`) is cancelled.
 */
export class Rag implements AsyncDisposable {
  readonly #store: VectorStore;
  /** The store was opened here. */
  readonly #ownsStore: boolean;
  readonly #embedder: LazyPart<Embedder>;
  readonly #llm: LazyPart<ServedModel> | null;
  readonly #reranker: LazyPart<Reranker> | null;
  readonly #closing = new AbortController();
  #answerer: Answerer | null = null;

  private constructor(store: VectorStore, parts: RagOptions) {
    const { embedder = EMBEDDER_DEFAULT, llm = null, reranker = null } = parts;
    this.#store = store;
    this.#ownsStore = typeof parts.store === "string";
    this.#embedder = new LazyPart(embedder, (name) => openEmbedder(name));
    this.#llm = llm === null ? null : new LazyPart(llm, (name) => LLM.load(name));
    this.#reranker =
      reranker === null ? null : new LazyPart(reranker, (name) => LocalReranker.open(name));
  }

  /** Opens the store. Throws STORE_UNAVAILABLE. */
  static async open(options: RagOptions): Promise<Rag> {
    requireOptions(options);
    const { store, create = true } = options;
    if (store === undefined || store === null) {
      const message =
        "Cannot open: store must be a folder, an address or an open store, there is none; " +
        'Rag.open({ store: ".perigee/rag" })';
      throw new EngineError("INVALID_ARGUMENT", message, { param: "store" });
    }
    return new Rag(typeof store === "string" ? await openStore(store, { create }) : store, options);
  }

  /**
   * Brings the corpus up to date with files, folders and patterns: `ingest` of this store and
   * embedder. Throws what opening an embedder and `ingest` throw.
   */
  async *ingest(
    paths: readonly string[],
    options: RagIngestOptions = {},
  ): AsyncGenerator<IngestEvent, void, undefined> {
    requireOptions(options);
    const { corpus = CORPUS_DEFAULT, signal, ...rest } = options;
    using call = this.#call(signal);
    const embedder = await this.#embedder.get();
    const to = { store: this.#store, embedder, corpus, signal: call.signal };
    yield* ingest(paths, { ...rest, ...to });
  }

  /**
   * Chunks that answer a query, best first. Throws INVALID_ARGUMENT, CORPUS_INVALID,
   * STORE_UNAVAILABLE.
   */
  async *search(query: string, options: SearchOptions = {}): AsyncGenerator<FoundChunk> {
    requireOptions(options);
    const { corpus = CORPUS_DEFAULT, filter = null, signal, ...rest } = options;
    checkQuestion(query, "query");
    const settings = parseSearchSettings(rest);
    using call = this.#call(signal);
    yield* await retrieve(await this.#retriever(), {
      ...{ corpora: named(corpus), query, filter, settings, signal: call.signal },
    });
  }

  /**
   * Answers a question from the corpus, with sources. Throws INVALID_ARGUMENT, CORPUS_INVALID,
   * STORE_UNAVAILABLE, PROMPT_TOO_LONG, and what generating throws.
   */
  async *ask(question: string, options: AskOptions = {}): AsyncGenerator<AskEvent> {
    requireOptions(options);
    const { corpus = CORPUS_DEFAULT, filter = null, signal, turns = [], ...rest } = options;
    const { mode = "hybrid", candidates, instructions = null, ...own } = rest;
    checkQuestion(question, "question");
    checkTurns(turns);
    const { sourcesMax, scoreMin } = parseAskSettings(own);
    const hasReranker = this.#reranker !== null;
    const limit = sourcesMax * (hasReranker ? 1 : CANDIDATES_PER_SOURCE);
    const wanted = { mode, limit, ...(candidates !== undefined && { candidates }) };
    const search = parseSearchSettings(wanted);
    const corpora = named(corpus);
    using call = this.#call(signal);
    const llm = await this.#openLlm();
    this.#answerer ??= new Answerer(llm);
    const settings = askSettings(own, instructions, llm.info);
    const { cacheSalt } = settings;
    const how = { cacheSalt, signal: call.signal };
    const alone = await standaloneQuestion(llm, question, turns, how);
    yield { type: "question", text: alone, rewritten: alone !== question.trim() };
    const found = await retrieve(await this.#retriever(), {
      ...{ corpora, query: alone, filter, settings: search, signal: call.signal },
    });
    const fit = fitting(found, alone, scoreMin);
    const hits = (hasReranker ? fit : byBestQuote(alone, fit)).slice(0, sourcesMax);
    const book = corpora.join(" ");
    const request = { corpus: book, question: alone, hits, settings, signal: call.signal };
    yield* this.#answerer.answer(request);
  }

  /** `ask`, as a whole. */
  async answer(question: string, options: AskOptions = {}): Promise<Answer> {
    for await (const event of this.ask(question, options)) {
      if (event.type === "answer") return event.answer;
    }
    throw new EngineError("ABORTED", "Cannot answer: the answer ended early");
  }

  /** The store and its corpora. */
  async status(): Promise<RagStatus> {
    return { store: this.#store.info, corpora: await this.#store.corpora() };
  }

  /** All documents of a corpus, by id; none where there is no such corpus. */
  async documents(corpus: string = CORPUS_DEFAULT): Promise<readonly StoredDocument[]> {
    const store = this.#store;
    return (await store.corpus(corpus)) === null ? [] : await store.documents(corpus);
  }

  /** Removes a document; tells how many chunks it had, 0 where it was not there. */
  async removeDocument(id: string, corpus: string = CORPUS_DEFAULT): Promise<number> {
    const store = this.#store;
    return (await store.corpus(corpus)) === null ? 0 : await store.deleteDocument(corpus, id);
  }

  /** Removes a corpus with all that is in it; false where there was none. */
  async removeCorpus(name: string): Promise<boolean> {
    const store = this.#store;
    if ((await store.corpus(name)) === null) return false;
    await store.drop(name);
    return true;
  }

  /** Cancels calls in work and closes what was opened by name. May be called repeatedly. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new EngineError("SHUTTING_DOWN", "Cannot go on: the corpora were closed"));
    this.#answerer?.[Symbol.dispose]();
    await Promise.all([this.#embedder, this.#llm, this.#reranker].map((part) => part?.close()));
    if (this.#ownsStore) await this.#store.close();
  }

  /** `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #retriever() {
    const [embedder, reranker = null] = await Promise.all([
      this.#embedder.get(),
      this.#reranker?.get(),
    ]);
    return { store: this.#store, embedder, reranker };
  }

  #openLlm(): Promise<ServedModel> {
    if (this.#llm !== null) return this.#llm.get();
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot ask: wanted a model that answers, none was given; open with llm",
      { param: "llm" },
    );
  }

  /** A signal of one call, which ends with the caller's and with this. */
  #call(signal: AbortSignal | undefined): Disposable & { readonly signal: AbortSignal } {
    const own = new AbortController();
    // Parts of a call listen side by side, more of them than warnings expect.
    setMaxListeners(0, own.signal);
    const sources = [this.#closing.signal, ...(signal === undefined ? [] : [signal])];
    const stops = sources.map((source) => {
      const stop = () => own.abort(source.reason);
      if (source.aborted) stop();
      source.addEventListener("abort", stop, { once: true });
      return () => source.removeEventListener("abort", stop);
    });
    const end = () => {
      for (const stop of stops) stop();
    };
    if (own.signal.aborted) end();
    own.signal.throwIfAborted();
    return { signal: own.signal, [Symbol.dispose]: end };
  }
}

/** Each once; the order of several makes no difference. */
function named(corpus: string | readonly string[]): readonly string[] {
  return typeof corpus === "string" ? [corpus] : [...new Set(corpus)].sort();
}

/** A preamble of the caller's own goes before instructions. */
function askSettings(fields: AskFields, instructions: string | null, info: ModelInfo): AskSettings {
  if (instructions === null || fields.preamble != null) return parseAskSettings(fields);
  return parseAskSettings({ ...fields, preamble: preambleWith(instructions, info) });
}

function checkQuestion(text: unknown, param: string): void {
  const isText = typeof text === "string" && text.trim() !== "";
  if (isText && text.length <= QUESTION_MAX) return;
  const current = typeof text === "string" ? `${text.length} characters` : typeof text;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot search: ${param} must be a text of 1 to ${QUESTION_MAX} characters, current value ` +
      `is ${current}`,
    { param },
  );
}

function checkTurns(turns: readonly Turn[]): void {
  const isGood =
    Array.isArray(turns) &&
    turns.length <= TURNS_MAX &&
    turns.every(
      ({ question, answer }) => typeof question === "string" && typeof answer === "string",
    );
  if (isGood) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot ask: turns must be at most ${TURNS_MAX} pairs of question and answer`,
    { param: "turns" },
  );
}
