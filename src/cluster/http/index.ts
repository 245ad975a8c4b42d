/**
 * cluster/http: questions to workers, and streams of what they announce.
 *
 *   worker-http.ts   one request, its answer bounded; failureText: why there is none
 *   worker-listening.ts  an answer that goes on, as calls
 *   deferred-ends.ts  connections whose end waits for a reader that pauses
 *   said-once.ts     which reasons of a trouble were told
 *   deadline.ts      one signal for an end from outside and for time that runs out
 *
 * Invariant: an aborted signal ends a request whatever its state, also that of a worker that
 * accepts connections and never answers.
 *
 * @module
 */
export { Deadline } from "./deadline.ts";
export { type ConnectorOptions, safeConnector } from "./deferred-ends.ts";
export { isUnanswered, SaidOnce } from "./said-once.ts";
export {
  failureText,
  systemHttp,
  type WorkerAnswer,
  WorkerHttp,
  type WorkerQuestion,
} from "./worker-http.ts";
export type { AnswerListener, Listening } from "./worker-listening.ts";
