/** Answers on bare connections, to bytes that no route receives. */
import type { Duplex } from "node:stream";
import { HttpError, httpFailure } from "./http-errors.ts";

interface Refusal {
  readonly status: number;
  readonly phrase: string;
  readonly reason: string;
}

const INVALID: Refusal = { status: 400, phrase: "Bad Request", reason: "it is not valid HTTP" };
const REFUSALS: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    phrase: "Request Header Fields Too Large",
    reason: "its headers are too long",
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    phrase: "Request Timeout",
    reason: "it was not sent in time",
  },
};

/** Answers bytes that are not HTTP or did not arrive in time. Closes the connection. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, connection: Duplex): void {
  if (error.code === "ECONNRESET" || !connection.writable) {
    connection.destroy();
    return;
  }
  refuse(connection, REFUSALS[error.code ?? ""] ?? INVALID);
}

/** Answers CONNECT, which requests a tunnel from a proxy. Closes the connection. */
export function answerConnect(connection: Duplex): void {
  connection.on("error", () => connection.destroy());
  refuse(connection, {
    status: 405,
    phrase: "Method Not Allowed",
    reason: "this server is no proxy",
  });
}

function refuse(connection: Duplex, { status, phrase, reason }: Refusal): void {
  const error = new HttpError(status, "bad_request", `Cannot read request: ${reason}`);
  const text = JSON.stringify(httpFailure(error).body);
  const head = [
    `HTTP/1.1 ${status} ${phrase}`,
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  connection.end(`${head.join("\r\n")}\r\n\r\n${text}`);
}
