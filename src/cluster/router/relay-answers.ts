/** What clients and books are told of how a relay went. */
import type { IncomingHttpHeaders } from "node:http";
import { EngineError, shortText } from "#base";
import type { WorkerInfo } from "#cluster/protocol";
import type { EarlyRejection, ReservationEnd, Unrouted } from "#cluster/routing";
import type { Outcome } from "./attempt.ts";

/** Headers of a worker's answer that concern the client. */
export function passedHeaders(headers: IncomingHttpHeaders): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of ["content-type", "retry-after"] as const) {
    const value = headers[name];
    if (typeof value === "string") passed[name] = value;
  }
  return passed;
}

/** For the books of load. */
export function endOf(outcome: Outcome): ReservationEnd {
  switch (outcome.kind) {
    case "cancelled":
      return "cancelled";
    case "failed":
      return outcome.error.code === "WORKER_TIMEOUT" ? "timed-out" : "failed";
    case "answered":
      return outcome.answer.status < 500 ? "ended" : "failed";
    default:
      return "ended";
  }
}

/** Whether the worker has answered as it was asked to. */
export function isComplete(outcome: Outcome): boolean {
  if (outcome.kind === "answered") return outcome.answer.status === 200;
  return outcome.kind === "streamed" || (outcome.kind === "passed-on" && outcome.complete);
}

/** Of a worker that was too busy to read in time: the router has sent it the whole request. */
export const NOT_SENT = 408;

const BUSY_MS = 1000;
const BUSY_MS_MAX = 15_000;

/** A worker that does not take the router's key. */
export function refusedKey({ id, kind }: WorkerInfo, status: number): EngineError {
  const flag = kind === "perigee" ? "--cluster-secret-file" : "--worker-api-key-file";
  const reason = `it refuses the router's key (status ${status}); check ${flag}`;
  return new EngineError("WORKER_FAILED", `Cannot relay: worker ${id}: ${reason}`);
}

/** How long a worker that refused a request is held to be full, in ms. */
export function busyMs(headers: IncomingHttpHeaders): number {
  const ms = Number(headers["retry-after"]) * 1000;
  return ms > 0 ? Math.min(ms, BUSY_MS_MAX) : BUSY_MS;
}

/** No worker was found. */
export function unroutedError(
  reason: Unrouted["reason"],
  model: string | null,
  rejection?: EarlyRejection,
): EngineError {
  if (rejection !== undefined) return deadlineError(rejection);
  if (reason === "model" && model !== null) {
    const message = `The model \`${shortText(model)}\` does not exist.`;
    return new EngineError("MODEL_NOT_FOUND", message, { param: "model" });
  }
  const wanted =
    reason === "excluded"
      ? "a worker must answer, all that serve the model have failed just now"
      : "a worker must be ready, current value is none";
  return new EngineError("NOT_READY", `Cannot accept request: ${wanted}; try again later`);
}

/** The request would miss a deadline: nothing of it was computed. */
export function deadlineError({
  reason,
  load,
  deadlineMs,
  retryAfterMs,
}: EarlyRejection): EngineError {
  const retryAfterSeconds = Math.max(Math.ceil(retryAfterMs / 1000), 1);
  const [what, field] =
    reason === "ttft" ? ["its first token", "ttft_ms"] : ["the time between its tokens", "tbt_ms"];
  return new EngineError(
    "DEADLINE_UNMEETABLE",
    `Cannot accept request: ${what} must come within ${deadlineMs} ms, the fleet's load is ` +
      `${load.toFixed(2)} of that; try again in ${retryAfterSeconds} s, or give deadlines.${field}`,
    { retryAfterSeconds, param: `deadlines.${field}` },
  );
}
