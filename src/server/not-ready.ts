/** Answers while the model is loaded: that there will be one, later. */
import { createServer } from "node:http";
import type { Socket } from "node:net";
import { EngineError } from "#base";
import { httpFailure } from "./http-errors.ts";

/** What takes connections until a model is there. */
export interface NotReady {
  take(socket: Socket): void;
  /** Ends the connections that it still has. */
  close(): void;
}

/** Every request gets 503 with Retry-After, and its connection ends. */
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
