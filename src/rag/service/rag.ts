import { EngineError } from "#base";
import type { ServedModel } from "#engine";
import {
  type Answer,
  Answerer,
  type AskEvent,
  type AskFields,
  parseAskSettings,
  standaloneQuestion,
  type Turn,
} from "#rag/answering";
import type { Embedder, Reranker } from "#rag/embedders";
import type { CorpusInfo, Filter, StoredDocument, StoreInfo, VectorStore } from "#rag/stores";
import { parseSearchSettings, type SearchFields, type SearchSettings } from "./config.ts";
import { type FoundChunk, fitting, retrieve } from "./retriever.ts";

/** The corpus of calls that name none. */
export const CORPUS_DEFAULT = "default";

/** Parts of a `Rag`; those that are given as objects stay their owner's to close. */
export interface RagOptions {
  readonly store: VectorStore;
  readonly embedder: Embedder;
  /** Answers questions; without one `ask` is refused, all else works. */
  readonly llm?: ServedModel | null;
  /** Reads what a search found again, and orders it. Default: none. */
  readonly reranker?: Reranker | null;
}

/** What every call may say. */
export interface CallOptions {
  /** Default: `default`. */
  readonly corpus?: string;
  /** The call rejects with its reason. */
  readonly signal?: AbortSignal;
}

/** Options of `search`. */
export interface SearchOptions extends CallOptions, SearchFields {
  /** By attributes of chunks. Default: all chunks. */
  readonly filter?: Filter | null;
}

/** Options of `ask`. */
export interface AskOptions extends CallOptions, AskFields {
  /** By attributes of chunks. Default: all chunks. */
  readonly filter?: Filter | null;
  /** How passages are searched for. Default: by meaning and by words. */
  readonly mode?: SearchSettings["mode"];
  /** Chunks that the reranker reads. Default: 30. */
  readonly candidates?: number;
  /** The conversation before the question, oldest first. Default: none. */
  readonly turns?: readonly Turn[];
}

/** What a store holds. */
export interface RagStatus {
  readonly store: StoreInfo;
  readonly embedder: { readonly name: string; readonly dimensions: number };
  readonly corpora: readonly CorpusInfo[];
}

/** UTF-16 units of a question or query, and turns of a conversation. */
const QUESTION_MAX = 20_000;
const TURNS_MAX = 1000;

/**
 * One's own documents: put in, searched, and asked. Any number of calls at a time. What is left
 * early (`break` in a `for await`) is cancelled.
 */
export class Rag implements AsyncDisposable {
  readonly #parts: RagOptions;
  readonly #answerer: Answerer | null;
  readonly #closing = new AbortController();

  private constructor(parts: RagOptions) {
    this.#parts = parts;
    const { llm = null } = parts;
    this.#answerer = llm === null ? null : new Answerer(llm);
  }

  /** Throws TOKENIZER_MISSING for a model without a tokenizer. */
  static async open(options: RagOptions): Promise<Rag> {
    return new Rag(options);
  }

  /**
   * Chunks that answer a query, best first. Throws INVALID_ARGUMENT, CORPUS_INVALID,
   * STORE_UNAVAILABLE.
   */
  async *search(query: string, options: SearchOptions = {}): AsyncGenerator<FoundChunk> {
    const { corpus = CORPUS_DEFAULT, filter = null, signal, ...rest } = options;
    checkQuestion(query, "query");
    const settings = parseSearchSettings(rest);
    using call = this.#call(signal);
    yield* await retrieve(this.#retriever(), {
      ...{ corpus, query, filter, settings, signal: call.signal },
    });
  }

  /**
   * Answers a question from the corpus, with sources. Throws INVALID_ARGUMENT, CORPUS_INVALID,
   * STORE_UNAVAILABLE, PROMPT_TOO_LONG, and what generating throws.
   */
  async *ask(question: string, options: AskOptions = {}): AsyncGenerator<AskEvent> {
    const { corpus = CORPUS_DEFAULT, filter = null, signal, turns = [], ...rest } = options;
    const { mode = "hybrid", candidates, ...own } = rest;
    checkQuestion(question, "question");
    checkTurns(turns);
    const settings = parseAskSettings(own);
    const limit = settings.sourcesMax;
    const wanted = { mode, limit, ...(candidates !== undefined && { candidates }) };
    const search = parseSearchSettings(wanted);
    const answerer = this.#answererFor();
    using call = this.#call(signal);
    const { cacheSalt } = settings;
    const { llm = null } = this.#parts;
    const how = { cacheSalt, signal: call.signal };
    const alone = await standaloneQuestion(llm, question, turns, how);
    yield { type: "question", text: alone, rewritten: alone !== question.trim() };
    const found = await retrieve(this.#retriever(), {
      ...{ corpus, query: alone, filter, settings: search, signal: call.signal },
    });
    const hits = fitting(found, alone, settings.scoreMin);
    const request = { corpus, question: alone, hits, settings, signal: call.signal };
    yield* answerer.answer(request);
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
    const { store, embedder } = this.#parts;
    const { name, dimensions } = embedder;
    return { store: store.info, embedder: { name, dimensions }, corpora: await store.corpora() };
  }

  /** All documents of a corpus, by id; none where there is no such corpus. */
  async documents(corpus: string = CORPUS_DEFAULT): Promise<readonly StoredDocument[]> {
    const { store } = this.#parts;
    return (await store.corpus(corpus)) === null ? [] : await store.documents(corpus);
  }

  /** Removes a document; tells how many chunks it had, 0 where it was not there. */
  async removeDocument(id: string, corpus: string = CORPUS_DEFAULT): Promise<number> {
    const { store } = this.#parts;
    return (await store.corpus(corpus)) === null ? 0 : await store.deleteDocument(corpus, id);
  }

  /** Removes a corpus with all that is in it; false where there was none. */
  async removeCorpus(name: string): Promise<boolean> {
    const { store } = this.#parts;
    if ((await store.corpus(name)) === null) return false;
    await store.drop(name);
    return true;
  }

  /** Cancels calls in work and closes what this opened. May be called repeatedly. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new EngineError("SHUTTING_DOWN", "Cannot go on: the corpus was closed"));
    this.#answerer?.[Symbol.dispose]();
  }

  /** `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #retriever() {
    const { store, embedder, reranker = null } = this.#parts;
    return { store, embedder, reranker };
  }

  #answererFor(): Answerer {
    if (this.#answerer !== null) return this.#answerer;
    throw new EngineError(
      "INVALID_ARGUMENT",
      "Cannot ask: wanted a model that answers, none was given; open with llm",
      { param: "llm" },
    );
  }

  /** A signal of one call, which ends with the caller's and with this. */
  #call(signal: AbortSignal | undefined): Disposable & { readonly signal: AbortSignal } {
    const own = new AbortController();
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
