/**
 * server: a model behind OpenAI's HTTP API.
 *
 * One request: access and limits (app.ts), a place among those in work (generation-route.ts), the
 * body's schema (openai/), the engine, and its tokens as one JSON answer or as events.
 *
 *   server.ts             starts and stops it; listener.ts holds the address from the start
 *   not-ready.ts          answers while the model is loaded
 *   answering/            threads that answer: connections handed over, what only one may know
 *   config.ts             its options
 *   app.ts                routes, and answers to requests that are not right
 *   generation-route.ts   routes that make the engine work; hang-ups
 *   openai/               OpenAI's endpoints with vLLM's extensions: schemas, answers, tool calls
 *   operations.ts         health, version, metrics, server info
 *   metrics.ts            Prometheus metrics, under vLLM's names too
 *   http-errors.ts        error codes to HTTP, the only place
 *   kv-events/            what the cache tells: polled, streamed, or published over ZeroMQ
 *   admission.ts          who is being served; draining
 *   access.ts             API keys, web origins
 *   broken-request.ts     bytes that are no request
 *   request-log.ts        a log line per request and per failure
 *   request-id.ts         the id by which a request is followed
 *   request-names.ts      names of the TypeScript API as requests write them
 *   body-shape.ts         limits to how deep bodies are nested, and to how many values they have
 *   error-text.ts         how much of a client's content an error says
 *   event-stream.ts       server-sent events that wait for slow readers
 *   sliced-answer.ts      long answers, piece by piece
 *   write-deadline.ts     ends connections whose readers take nothing
 *
 * Invariant: sees the engine through `ServedModel` only, and never a token of a prompt in a log.
 * Invariant: a client that hangs up aborts its request at once.
 *
 * @module
 */
export { SamplingDefaults, ServerOptions } from "./config.ts";
export { type ErrorBody, HTTP_ERRORS } from "./http-errors.ts";
export { type ReservedServer, type RunningServer, reserveServer, startServer } from "./server.ts";
