/** How Anthropic's API writes failures and streams. */
import type { Dialect } from "../dialect.ts";
import type { HttpFailure } from "../http-errors.ts";

/** Anthropic's status for servers that have no room: clients wait and try again. */
const OVERLOADED_STATUS = 529;

/** Codes of 503 that another try may not meet. */
const PASSING: ReadonlySet<string> = new Set(["overloaded", "not_ready", "shutting_down"]);

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  504: "timeout_error",
};

/** One event of a stream, whose name is its type. */
interface MessageEvent {
  readonly type: string;
  readonly [field: string]: unknown;
}

/** The text of one event. */
export function messageEvent(event: MessageEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

interface MessageError extends MessageEvent {
  readonly type: "error";
  readonly error: { readonly type: string; readonly message: string };
  readonly request_id: string;
}

function errorOf({ status, body }: HttpFailure, requestId: string): MessageError {
  const { message } = body.error;
  return {
    type: "error",
    error: { type: typeOf(status, body.error.code), message },
    request_id: requestId,
  };
}

function typeOf(status: number, code: string | null): string {
  if (isPassing(status, code)) return "overloaded_error";
  const known = TYPES[status];
  if (known !== undefined) return known;
  return status < 500 ? "invalid_request_error" : "api_error";
}

function isPassing(status: number, code: string | null): boolean {
  return status === 503 && code !== null && PASSING.has(code);
}

export const ANTHROPIC: Dialect = {
  failure: (failure, requestId) => ({
    status: isPassing(failure.status, failure.body.error.code) ? OVERLOADED_STATUS : failure.status,
    body: errorOf(failure, requestId),
  }),
  failureItem: (failure, requestId) => messageEvent(errorOf(failure, requestId)),
  headers: (requestId) => ({ "request-id": requestId }),
  stream: {
    contentType: "text/event-stream; charset=utf-8",
    keepAlive: messageEvent({ type: "ping" }),
    end: "",
  },
};
