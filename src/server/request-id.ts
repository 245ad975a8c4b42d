/** Request ids, which appear in answers and in the log. */
import type { IncomingHttpHeaders } from "node:http";

/** Valid request ids of clients: they appear in answers, headers and log lines. */
export const requestIdPattern: RegExp = /^[\w.:-]{1,128}$/;

/** The id in the header `X-Request-Id`; null if there is none or it is invalid. */
export function headerRequestId(headers: IncomingHttpHeaders): string | null {
  const given = headers["x-request-id"];
  return typeof given === "string" && requestIdPattern.test(given) ? given : null;
}
