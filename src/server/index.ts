/**
 * server: serves a model over OpenAI's HTTP API.
 *
 * One request passes access checks and limits (app.ts), admission (generation-route.ts), the body's
 * schema (openai/) and the engine; its tokens become one JSON answer or a stream of events.
 *
 *   server.ts             starts and stops the server; listener.ts holds the address from the start
 *   not-ready.ts          answers while the model is loaded
 *   answering/            answering threads: handed-over connections, forwarded requests
 *   config.ts             server options; http-config.ts: those of any HTTP server
 *   app.ts                routes, the limit on a body's bytes; context.ts: what all routes share
 *   http-app.ts           an application without routes: limits, access, failures as answers
 *   public.ts             the door of the package, perigee/server
 *   generation-route.ts   routes that use the engine; admitted.ts: requests in work, disconnects
 *   extension.ts          what another layer adds: routes, answers from files
 *   openapi/              the OpenAPI document, and the page that shows it
 *   openai/               OpenAI's endpoints with vLLM's extensions: schemas, answers, tool calls
 *   anthropic/            Anthropic's messages, as chats of openai/ in another form
 *   ollama/               a subset of Ollama's API, likewise
 *   dialect.ts            how an API that is not OpenAI's writes failures and streams
 *   operations.ts         health, version, metrics, server info
 *   worker-info.ts        what routers read of a worker; load-routes.ts: what those of other
 *                         engines do
 *   kv-fill.ts            a worker that gives memory alone is told which blocks to fetch
 *   fleet-access.ts       who may change what a worker does for its fleet
 *   worker-role.ts        its role changes while it runs; duty.ts: requests of before get 409
 *   metrics.ts            Prometheus metrics, also under vLLM's names: metrics-catalogue.ts and
 *                         metrics-cache.ts have their names and values, metric.ts the form of one
 *   http-errors.ts        the only mapping from error codes to HTTP
 *   kv-events/            KV cache events: polled, streamed, or published over ZeroMQ
 *   dashboard/            the page at /, and the stream of the server's state that it shows
 *   admission.ts          running requests and their limit; draining
 *   access.ts             API keys, web origins; whose a request is
 *   body-limit.ts         longest body
 *   broken-request.ts     answers to bytes that are no HTTP request
 *   request-log.ts        a log line per request and per failure
 *   request-id.ts         request ids in answers and logs
 *   request-names.ts      TypeScript field names to request field names
 *   body-shape.ts         limits for nesting depth and number of values of a body
 *   error-text.ts         limits for client content in error messages
 *   event-stream.ts       server-sent events with backpressure
 *   sliced-answer.ts      long answers in slices
 *   write-deadline.ts     closes connections whose readers stall
 *
 * Invariant: uses the engine only through `ServedModel`, and never logs a token of a prompt.
 * Invariant: a client's disconnect aborts its request at once.
 *
 * @module
 */
export { isLoopback, keysOf, OWNER_HEADER } from "./access.ts";
export { ANTHROPIC } from "./anthropic/anthropic-dialect.ts";
export { messagesPromptTokens } from "./anthropic/message-prompt.ts";
export { ownVersion } from "./build-version.ts";
export { SamplingDefaults, ServerOptions } from "./config.ts";
export { namedEvent } from "./dashboard/live-feed.ts";
export { pageRoutes } from "./dashboard/page-routes.ts";
export { Viewers } from "./dashboard/viewers.ts";
export { type Dialect, OPENAI, type StreamForm } from "./dialect.ts";
export { EventStream, eventText } from "./event-stream.ts";
export type { Admit, ServerExtension } from "./extension.ts";
export { createHttpApp, openApp } from "./http-app.ts";
export { type HttpConfig, httpFields } from "./http-config.ts";
export {
  type ErrorBody,
  HTTP_ERRORS,
  HttpError,
  type HttpFailure,
  httpFailure,
} from "./http-errors.ts";
export { Listener } from "./listener.ts";
export { OLLAMA } from "./ollama/ollama-dialect.ts";
export { OLLAMA_VERSION, refuseToManage } from "./ollama/ollama-models.ts";
export { ollamaPromptTokens } from "./ollama/ollama-prompt.ts";
export { boundedList, boundedRecord } from "./openai/bounded.ts";
export { BATCH_PRIORITY } from "./openai/fields.ts";
export {
  type FileCitation,
  type FileSearch,
  type FileSearchEvent,
  type FileSearchRequest,
  type FileSearchTool,
  type FoundFile,
  ID_LENGTH_MAX,
  RESULTS_MAX,
  type SearchedTurn,
  searchesFiles,
} from "./openai/file-search.ts";
export { fieldError, parseRequest } from "./openai/parse-request.ts";
export { beginsWithNoise, withoutNoise } from "./openai/prompt-noise.ts";
export {
  chatPromptTokens,
  completionPromptTokens,
  type PromptSource,
  responsePromptTokens,
} from "./openai/prompt-tokens.ts";
export { responseOfItem, serverTag, tagOfResponse } from "./openai/responses/response-ids.ts";
export { RESPONSES } from "./openai/responses/responses.ts";
export {
  ATTRIBUTE_LENGTH_MAX,
  ATTRIBUTE_NAME,
  rankingOptions,
  type SearchFilter,
  searchFilter,
} from "./openai/search-filter.ts";
export type { RouteDoc } from "./openapi/route-doc.ts";
export { requestIdPattern } from "./request-id.ts";
export { logFailure } from "./request-log.ts";
export {
  type ReservedServer,
  type RunningServer,
  reserveServer,
  type Serving,
  startServer,
} from "./server.ts";
export type { WorkerIdentity, WorkerReport } from "./worker-info.ts";
