/** What the log says about requests: never their content. */
import type { FastifyBaseLogger, FastifyInstance } from "fastify";
import { EngineError, messageOf } from "#base";
import type { HttpFailure } from "./http-errors.ts";

/** The status that proxies log for a client that hung up; no one is there to see it. */
const hungUpStatus = 499;

/** Logs method, path, status and time of each request. */
export function logRequests(app: FastifyInstance): void {
  app.addHook("onRequest", async (request, reply) => {
    reply.raw.once("close", () => {
      const { writableFinished, statusCode } = reply.raw;
      const status = writableFinished ? statusCode : hungUpStatus;
      const ms = Math.round(reply.elapsedTime);
      request.log.info({ method: request.method, url: request.url, status, ms }, "request");
    });
  });
}

/**
 * Logs a failure on our side: refusals and known states by their message, at `warn`; what should
 * not happen with its stack, at `error`. What the client did wrong is in its answer alone.
 */
export function logFailure(log: FastifyBaseLogger, error: unknown, failure: HttpFailure): void {
  if (failure.status < 500) return;
  if (error instanceof EngineError && failure.status !== 500) {
    log.warn({ code: error.code }, messageOf(error));
  } else {
    log.error(error, "request failed");
  }
}
