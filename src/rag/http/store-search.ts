/** Searches of vector stores, and answers of chats from them. */

import type { Source } from "#rag/answering";
import type { AskOptions, FoundChunk, Rag, SearchOptions } from "#rag/service";
import type {
  FileCitation,
  FileSearch,
  FileSearchEvent,
  FileSearchRequest,
  FileSearchTool,
  FoundFile,
} from "#server";
import type { Corpora } from "./corpora.ts";
import type { FileIngest } from "./file-ingest.ts";
import type { MemberRecord, StoreRecord } from "./records.ts";
import type { SearchRequest } from "./request-params.ts";
import type { VectorStores } from "./vector-stores.ts";

/** What searches stand on. */
export interface StoreSearchParts {
  readonly rag: Rag;
  readonly stores: VectorStores;
  readonly corpora: Corpora;
  readonly ingest: FileIngest;
}

const RESULTS_DEFAULT = 10;

/** A chunk with the file that it is of. */
interface Found {
  readonly hit: FoundChunk;
  readonly member: MemberRecord;
}

export class StoreSearch implements FileSearch {
  readonly #parts: StoreSearchParts;

  constructor(parts: StoreSearchParts) {
    this.#parts = parts;
  }

  /** The results of one request, in the API's form. */
  async page(store: StoreRecord, request: SearchRequest, signal: AbortSignal): Promise<object> {
    const queries = typeof request.query === "string" ? [request.query] : request.query;
    const limit = request.max_num_results ?? RESULTS_DEFAULT;
    await this.#parts.corpora.make(store.id);
    const filter = request.filters ?? null;
    const mode = modeOf(request.ranking_options);
    const options = { corpus: store.id, limit, filter, mode, signal };
    const lists = await Promise.all(queries.map((query) => this.#search(query, options)));
    const threshold = request.ranking_options?.score_threshold ?? 0;
    const found = interleaved(lists).filter(({ hit }) => scoreOf(hit) >= threshold);
    return {
      ...{ object: "vector_store.search_results.page", search_query: queries },
      ...{ data: found.slice(0, limit).map(resultBody), has_more: false, next_page: null },
    };
  }

  /** Answers a chat. Throws HttpError 404 for an unknown store, and what `Rag.ask` does. */
  async *answer(request: FileSearchRequest): AsyncGenerator<FileSearchEvent, void, undefined> {
    const { stores, corpora, rag } = this.#parts;
    const ids = [...new Set(request.tool.vector_store_ids)];
    const found = ids.map((id) => stores.use(stores.get(id)));
    for (const { id } of found) await corpora.make(id);
    let sources: readonly Source[] = [];
    for await (const event of rag.ask(request.question, askOptions(request, ids))) {
      if (event.type === "sources") {
        sources = event.sources;
        yield { type: "found", files: sources.flatMap((source) => this.#foundOf(source, ids)) };
      } else if (event.type === "text") yield { type: "text", text: event.text };
      else if (event.type === "citation") {
        const { number, at } = event.citation;
        const source = sources.find((one) => one.number === number);
        const citation = source === undefined ? null : this.#citation(source, at, ids);
        if (citation !== null) yield { type: "citation", citation };
      } else if (event.type === "answer") {
        const { finishReason, usage } = event.answer;
        const { promptTokens, cachedTokens, completionTokens } = usage;
        yield { type: "end", finishReason, promptTokens, cachedTokens, completionTokens };
      }
    }
  }

  async #search(query: string, options: SearchOptions & { corpus: string }): Promise<Found[]> {
    const { rag } = this.#parts;
    const found: Found[] = [];
    for await (const hit of rag.search(query, options)) {
      const member = this.#memberOf(options.corpus, hit.chunk.documentId);
      if (member !== null) found.push({ hit, member });
    }
    return found;
  }

  /** Empty where its file is on its way out. */
  #foundOf({ chunk, score }: Source, storeIds: readonly string[]): FoundFile[] {
    for (const id of storeIds) {
      const member = this.#memberOf(id, chunk.documentId);
      if (member === null) continue;
      const { fileId, filename, attributes } = member;
      const near = Math.min(1, Math.max(0, score));
      return [{ fileId, filename, attributes, score: near, text: chunk.text }];
    }
    return [];
  }

  #citation(source: Source, at: number, storeIds: readonly string[]): FileCitation | null {
    for (const id of storeIds) {
      const member = this.#memberOf(id, source.chunk.documentId);
      if (member !== null) return { fileId: member.fileId, filename: member.filename, index: at };
    }
    return null;
  }

  /** Null: the file is not in the store, or it is on its way out. */
  #memberOf(storeId: string, documentId: string): MemberRecord | null {
    const { ingest, stores } = this.#parts;
    const fileId = ingest.fileIdOf(documentId);
    const member = fileId === null ? null : stores.files.find(storeId, fileId);
    const isThere = member?.status === "completed" || member?.status === "in_progress";
    return isThere ? member : null;
  }
}

/** By meaning alone where no ranker is wanted, else by words, too, and by the server's reranker. */
function modeOf(options: FileSearchTool["ranking_options"]): "vector" | "hybrid" {
  return options?.ranker === "none" ? "vector" : "hybrid";
}

/**
 * How near question and chunk are, 0 to 1: the reranker's score, else the cosine. What words alone
 * found has 0.
 */
function scoreOf({ relevance, cosine }: FoundChunk): number {
  return Math.min(1, Math.max(0, relevance ?? cosine ?? 0));
}

/** The results of several queries, the best of each first; a chunk comes once. */
function interleaved(lists: readonly (readonly Found[])[]): Found[] {
  const merged = new Map<string, Found>();
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  for (let rank = 0; rank < longest; rank++) {
    for (const list of lists) {
      const found = list[rank];
      if (found === undefined) continue;
      const { id } = found.hit.chunk;
      const known = merged.get(id);
      if (known === undefined || scoreOf(known.hit) < scoreOf(found.hit)) merged.set(id, found);
    }
  }
  return [...merged.values()];
}

function resultBody({ hit, member }: Found): object {
  return {
    ...{ file_id: member.fileId, filename: member.filename, score: scoreOf(hit) },
    ...{ attributes: member.attributes, content: [{ type: "text", text: hit.chunk.text }] },
  };
}

function askOptions(request: FileSearchRequest, corpora: readonly string[]): AskOptions {
  const { tool, maxTokens, temperature, seed, cacheSalt, instructions, turns, signal } = request;
  const { max_num_results: sourcesMax, ranking_options: ranking } = tool;
  const scoreMin = ranking?.score_threshold ?? null;
  return {
    ...{ corpus: corpora, turns, signal, mode: modeOf(ranking), seed, cacheSalt, instructions },
    filter: tool.filters ?? null,
    ...(sourcesMax != null && { sourcesMax }),
    ...(scoreMin !== null && { scoreMin }),
    ...(maxTokens !== null && { maxTokens }),
    ...(temperature !== null && { temperature }),
  };
}
