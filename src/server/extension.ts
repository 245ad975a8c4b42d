/** What another layer adds to a server: routes of its own, and answers from files. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { FileSearch } from "./openai/file-search.ts";
import type { RouteDoc } from "./openapi/route-doc.ts";

/**
 * Runs one request's work as a request of the server's own: it counts among those in work, gets 503
 * at shutdown, and its signal is aborted when the client disconnects.
 */
export type Admit = <Result>(
  request: FastifyRequest,
  reply: FastifyReply,
  work: (signal: AbortSignal) => Promise<Result>,
) => Promise<Result>;

/** Runs on the server's main thread; answering threads pass requests on to it. */
export interface ServerExtension {
  /** Adds its routes. API keys, limits and the form of errors are the server's. */
  addRoutes(app: FastifyInstance, admit: Admit): void;
  /** What its routes take and answer, for the OpenAPI document. */
  readonly routeDocs: readonly RouteDoc[];
  /** Answers chats whose tools name `file_search`. */
  readonly fileSearch: FileSearch;
}
