import type { Socket } from "node:net";
import { buildConnector } from "undici";

/** How connections to workers are made. */
export interface ConnectorOptions {
  readonly connectTimeoutMs: number;
  /** Certificates of authorities, in PEM, for https; null: the system's. */
  readonly ca: string | null;
}

/**
 * Connects as undici does, to workers that may end a connection at any time: undici 7.30 fails an
 * assertion, which ends the process, where an end comes while a reader of its answer pauses.
 */
export function safeConnector({
  connectTimeoutMs: timeout,
  ca,
}: ConnectorOptions): buildConnector.connector {
  const connect = buildConnector({ timeout, ...(ca === null ? {} : { ca }) });
  return (options, callback) => {
    connect(options, (...answer) => {
      if (answer[0] === null) deferEnds(answer[1]);
      callback(...answer);
    });
  };
}

/** Tells undici of the connection's end when its reader takes bytes again, and not before. */
function deferEnds(socket: Socket): void {
  const readOn = socket.read.bind(socket);
  const pushOn = socket.push.bind(socket);
  let isRead = false;
  let hasEnded = false;
  const end = () => {
    socket.push(null);
    readOn(0);
  };
  // Node's own reads, which fetch bytes, have a size; those of undici, which take them, have none.
  socket.read = (size?: number) => {
    if (size !== undefined) return readOn(size);
    isRead = true;
    if (hasEnded) {
      hasEnded = false;
      setImmediate(end);
    }
    return readOn();
  };
  socket.push = (bytes: unknown) => {
    if (bytes !== null) return pushOn(bytes);
    // A reader that does not pause looks at once whether there is anything.
    isRead = false;
    socket.emit("readable");
    if (isRead) return pushOn(null);
    hasEnded = true;
    return false;
  };
}
