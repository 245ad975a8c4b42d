/** Ids by which a request is followed through answers and the log. */
import type { IncomingHttpHeaders } from "node:http";

/** What a client may call its request: it appears in answers, headers and log lines. */
export const requestIdPattern: RegExp = /^[\w.:-]{1,128}$/;

/** The id in the header `X-Request-Id`; null where there is none, or none that may be used. */
export function headerRequestId(headers: IncomingHttpHeaders): string | null {
  const given = headers["x-request-id"];
  return typeof given === "string" && requestIdPattern.test(given) ? given : null;
}
