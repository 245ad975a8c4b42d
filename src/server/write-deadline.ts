/** Closes connections whose readers do not take the written data. */
import type { Server } from "node:http";
import { Socket } from "node:net";

/** Checks per deadline: a connection is closed late by at most this fraction of the deadline. */
const LOOKS_PER_DEADLINE = 8;
const LOOK_MS_MAX = 1000;

/** The time of a reader's last progress, and the bytes that it had taken then. */
interface Mark {
  sinceMs: number;
  takenBytes: number;
}

/**
 * Destroys connections of `server` that have pending bytes and for which the system accepts no
 * whole write within `timeoutMs`: stalled readers, vanished peers, and readers that take a byte now
 * and then. The request's handler receives `close`. Connections of which a write has left bytes
 * pending are looked at periodically, until none are: a timer reset by every write would cost more
 * than the write's own bookkeeping. Others cost nothing. Returns a function that stops the looks.
 */
export function enforceWriteDeadline(
  server: Server,
  timeoutMs: number,
  onCut: (address: string) => void,
): () => void {
  const pending = new Map<Socket, Mark>();
  const lookMs = Math.min(LOOK_MS_MAX, timeoutMs / LOOKS_PER_DEADLINE);
  let timer: NodeJS.Timeout | null = null;
  const stop = () => {
    if (timer !== null) clearInterval(timer);
    timer = null;
  };
  const look = () => {
    const nowMs = performance.now();
    for (const [socket, mark] of pending) {
      const takenBytes = takenBy(socket);
      if (socket.writableLength === 0) pending.delete(socket);
      else if (takenBytes > mark.takenBytes) {
        mark.sinceMs = nowMs;
        mark.takenBytes = takenBytes;
      } else if (nowMs - mark.sinceMs >= timeoutMs) {
        onCut(socket.remoteAddress ?? "unknown");
        socket.destroy();
      }
    }
    if (pending.size === 0) stop();
  };
  server.on("connection", (socket) => {
    // A connection forwarded from another thread has its reader, and its deadline, there.
    if (!(socket instanceof Socket)) return;
    onPending(socket, () => {
      if (pending.has(socket)) return;
      pending.set(socket, { sinceMs: performance.now(), takenBytes: takenBy(socket) });
      timer ??= setInterval(look, lookMs).unref();
    });
    socket.once("close", () => pending.delete(socket));
  });
  return stop;
}

/** Calls back behind each write that leaves bytes pending; no event of the socket tells this. */
function onPending(socket: Socket, callback: () => void): void {
  const watched = <Wanted extends "write" | "end">(name: Wanted): Socket[Wanted] => {
    const own = socket[name];
    return function (this: Socket, ...words: unknown[]) {
      const result: unknown = Reflect.apply(own, this, words);
      if (this.writableLength > 0) callback();
      return result;
    } as Socket[Wanted]; // It takes and returns what the method does.
  };
  socket.write = watched("write");
  socket.end = watched("end");
}

/** Bytes that the system has accepted. */
function takenBy(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength;
}
