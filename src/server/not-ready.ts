/** Answers to requests while the model is loaded. */
import { createServer } from "node:http";
import type { Socket } from "node:net";
import { EngineError } from "#base";
import { httpFailure } from "./http-errors.ts";

/** Takes connections until the model is loaded. */
export interface NotReady {
  take(socket: Socket): void;
  /** Closes its remaining connections. */
  close(): void;
}

/** Answers every request with 503 and Retry-After, then closes its connection. */
export function answerNotReady(): NotReady {
  const server = createServer((request, response) => {
    request.resume();
    const error = new EngineError(
      "NOT_READY",
      "Cannot accept request: the model is being loaded; try again later",
    );
    const { status, body, retryAfterSeconds } = httpFailure(error);
    response.writeHead(status, {
      "content-type": "application/json; charset=utf-8",
      connection: "close",
      "retry-after": String(retryAfterSeconds ?? 1),
    });
    response.end(JSON.stringify(body));
  });
  server.emit("listening");
  return {
    take: (socket) => {
      server.emit("connection", socket);
      socket.resume();
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
