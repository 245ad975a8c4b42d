/**
 * The tool `file_search` of chats: an extension of ours to OpenAI's chat completions, with the
 * fields that the tool has in OpenAI's Responses. The server itself runs it; what it finds, and the
 * answer, come from the layer behind `FileSearch`.
 */
import { z } from "zod";
import { isPlainObject } from "#base";
import { boundedList, LIST_LIMITS } from "./bounded.ts";
import { rankingOptions, type SearchFilter, searchFilter } from "./search-filter.ts";

/** Maximum results of one search, OpenAI's limit. */
export const RESULTS_MAX = 50;
/** Longest id of a file or vector store, in characters. */
export const ID_LENGTH_MAX = 64;

/** The tool, as an item of a request's `tools`. */
export const fileSearchTool = z.strictObject({
  type: z.literal("file_search"),
  vector_store_ids: boundedList(z.string().min(1).max(ID_LENGTH_MAX), {
    ...{ min: 1, max: LIST_LIMITS.vector_store_ids },
  }),
  max_num_results: z.int().min(1).max(RESULTS_MAX).nullish(),
  filters: searchFilter.nullish(),
  ranking_options: rankingOptions.nullish(),
});
export type FileSearchTool = z.output<typeof fileSearchTool>;

/** A question with an answer, of a conversation. */
export interface SearchedTurn {
  readonly question: string;
  readonly answer: string;
}

/** A question that is answered from vector stores. Null: what suits the layer that answers. */
export interface FileSearchRequest {
  readonly tool: FileSearchTool;
  readonly question: string;
  /** The conversation before it, oldest first. */
  readonly turns: readonly SearchedTurn[];
  /** System messages of the conversation. */
  readonly instructions: string | null;
  readonly maxTokens: number | null;
  readonly temperature: number | null;
  readonly seed: number | null;
  readonly cacheSalt: string | null;
  readonly signal: AbortSignal;
}

/** A file that an answer names. */
export interface FileCitation {
  readonly fileId: string;
  readonly filename: string;
  /** Where the citation's `[n]` begins in the answer, in UTF-16 units. */
  readonly index: number;
}

/** A passage that was found. */
export interface FoundFile {
  readonly fileId: string;
  readonly filename: string;
  /** 0 to 1: larger is nearer, comparable within one question. */
  readonly score: number;
  readonly text: string;
  readonly attributes: Readonly<Record<string, unknown>>;
}

/** What answering yields: `found`, then text and citations in any number, then one `end`. */
export type FileSearchEvent =
  | { readonly type: "found"; readonly files: readonly FoundFile[] }
  | { readonly type: "text"; readonly text: string }
  /** Behind the text of its `[n]`. */
  | { readonly type: "citation"; readonly citation: FileCitation }
  | {
      readonly type: "end";
      readonly finishReason: "stop" | "length";
      readonly promptTokens: number;
      /** Prompt tokens whose keys and values were in the cache. */
      readonly cachedTokens: number;
      readonly completionTokens: number;
    };

/** Answers chats from vector stores. */
export interface FileSearch {
  /** Leaving the loop cancels the answer. Throws an EngineError or HttpError. */
  answer(request: FileSearchRequest): AsyncGenerator<FileSearchEvent, void, undefined>;
}

/** Whether a body, checked or not, is of a chat that searches files. */
export function searchesFiles(body: unknown): boolean {
  if (!isPlainObject(body) || !Array.isArray(body.tools)) return false;
  return body.tools.some((tool) => isPlainObject(tool) && tool.type === "file_search");
}

export type { SearchFilter };
