/** Log lines about requests, never with their content. */

import type { FastifyBaseLogger, FastifyInstance, FastifyRequest } from "fastify";
import { EngineError, messageOf } from "#base";
import type { Call } from "./context.ts";
import type { EndedRequest } from "./ended-request.ts";
import { HttpError, type HttpFailure } from "./http-errors.ts";

/** The status that proxies log for a client that disconnected; it is never sent. */
const hungUpStatus = 499;

/** Paths that load balancers and scrapers request every few seconds. */
export const PROBE_PATHS: ReadonlySet<string> = new Set([
  "/health",
  "/health/live",
  "/health/ready",
  "/ping",
  "/version",
  "/get_load",
  "/metrics",
]);

/** Those, and what routers request, with a key. */
const QUIET_PATHS: ReadonlySet<string> = new Set([
  ...PROBE_PATHS,
  "/worker_info",
  "/loads",
  "/v1/loads",
  // Routers compare their tokenizers with a worker's, and a client's call computes little.
  "/tokenize",
  "/detokenize",
]);

/** Its answer goes on until the router that follows it hangs up. */
const FOLLOWED_PATH = "/worker_info";

/** Ids and token counts of generation requests. */
const calls = new WeakMap<FastifyRequest, Pick<Call, "id" | "usage">>();

/** Adds the answer's id and the token counts to the log line of `request`. */
export function noteCall(request: FastifyRequest, call: Pick<Call, "id" | "usage">): void {
  calls.set(request, call);
}

/** Requests that another thread answers, which logs and counts them. */
const relayed = new WeakSet<FastifyRequest>();

/** `request` is logged and counted by the thread that answers it. */
export function noteRelayed(request: FastifyRequest): void {
  relayed.add(request);
}

/**
 * Logs method, path, status and time of each request; for generation requests also the token
 * counts, and the answer's id where the body has one of its own. Probes are logged at
 * `debug`, but for the first that fails with another status than the one before it.
 */
export function logRequests(
  app: FastifyInstance,
  onEnd: (request: EndedRequest) => void = () => {},
): void {
  const probes = new ProbeStates();
  app.addHook("onRequest", async (request, reply) => {
    reply.raw.once("close", () => {
      if (relayed.has(request)) return;
      const { writableFinished, statusCode } = reply.raw;
      const status = writableFinished ? statusCode : hungUpStatus;
      const route = request.routeOptions.url ?? null;
      const { method, url } = request;
      onEnd({ method, route, status });
      const ms = Math.round(reply.elapsedTime);
      const line = { method, url, status, ms, ...callFields(request) };
      if (route !== null && probes.isQuiet(route, status)) request.log.debug(line, "request");
      else request.log.info(line, "request");
    });
  });
}

/** What probes were answered last: one that fails does so every few seconds, for a while. */
class ProbeStates {
  readonly #statuses = new Map<string, number>();

  /** Whether an answer tells nothing new. */
  isQuiet(route: string, status: number): boolean {
    if (!QUIET_PATHS.has(route)) return false;
    const before = this.#statuses.get(route);
    this.#statuses.set(route, status);
    if (route === FOLLOWED_PATH && status === hungUpStatus) return true;
    return status < 400 || (PROBE_PATHS.has(route) && status === before);
  }
}

function callFields(request: FastifyRequest): object {
  const call = calls.get(request);
  if (call === undefined) return {};
  const counts = call.usage.usage();
  return {
    ...(call.id !== request.id && { answerId: call.id }),
    promptTokens: counts.prompt_tokens,
    cachedTokens: counts.prompt_tokens_details.cached_tokens,
    completionTokens: counts.completion_tokens,
    ...(counts.perigee?.kv_byte_seconds !== undefined && {
      kvByteSeconds: counts.perigee.kv_byte_seconds,
    }),
  };
}

/**
 * Logs a server failure: known states by their message, at `warn`; unexpected errors with their
 * stack, at `error`. Client errors appear only in the answer.
 */
export function logFailure(log: FastifyBaseLogger, error: unknown, failure: HttpFailure): void {
  if (failure.status < 500) return;
  // The request asked for what no server of this kind does: its fault, too.
  if (error instanceof HttpError && error.status === 501) return;
  if (error instanceof EngineError && failure.status !== 500) {
    log.warn({ code: error.code }, messageOf(error));
  } else {
    log.error(error, "request failed");
  }
}
