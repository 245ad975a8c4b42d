import {
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as openRequest,
  type ServerResponse,
} from "node:http";
import type { MessagePort } from "node:worker_threads";
import { PortStream } from "./port-stream.ts";

/** Hop-by-hop headers: they apply to one connection only. */
const HOP_HEADERS = new Set(["connection", "keep-alive", "proxy-connection", "expect", "upgrade"]);
/** The transfer encoding, too, applies to one connection only. */
const ANSWER_HOP_HEADERS = new Set([...HOP_HEADERS, "transfer-encoding"]);

/** How a body's length is told: not as the client did where the body has been read. */
const LENGTH_HEADERS = new Set([...HOP_HEADERS, "transfer-encoding", "content-length"]);

/** Where a request goes. */
interface Onward {
  readonly port: MessagePort;
  /** What the request's body was, where it has been read. Default: it has not. */
  readonly body?: Buffer;
}

/**
 * Forwards a request to another thread's server, over a port: request and answer pass byte for
 * byte, except for hop-by-hop headers. Settles when the answer is sent, or one of the two sides is
 * gone.
 */
export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  { port, body }: Onward,
): Promise<void> {
  const headers = endToEnd(request.rawHeaders, body === undefined ? HOP_HEADERS : LENGTH_HEADERS);
  if (body !== undefined) headers.push("content-length", String(body.length));
  // With keep-alive, `connection: close` in the answer is the other server's own decision.
  headers.push("connection", "keep-alive");
  const onward = openRequest({
    method: request.method ?? "GET",
    path: request.url ?? "/",
    headers: headers as unknown as OutgoingHttpHeaders, // as Node takes them, not its types
    createConnection: () => new PortStream(port),
  });
  onward.on("response", (answer) => {
    const { statusCode = 502, statusMessage = "", rawHeaders } = answer;
    const own = endToEnd(rawHeaders, ANSWER_HOP_HEADERS);
    if (answer.headers.connection === "close") own.push("connection", "close");
    response.writeHead(statusCode, statusMessage, own);
    answer.on("error", () => response.destroy());
    answer.pipe(response);
  });
  onward.on("error", () => response.destroy());
  if (body === undefined) request.pipe(onward);
  else onward.end(body);
  return new Promise((resolve) => {
    response.once("close", () => {
      onward.destroy();
      resolve();
    });
  });
}

/** Alternating header names and values, in order, without the headers in `skipped`. */
function endToEnd(raw: readonly string[], skipped: ReadonlySet<string>): string[] {
  const headers: string[] = [];
  for (let place = 0; place + 1 < raw.length; place += 2) {
    const [name = "", value = ""] = raw.slice(place, place + 2);
    if (!skipped.has(name.toLowerCase())) headers.push(name, value);
  }
  return headers;
}
