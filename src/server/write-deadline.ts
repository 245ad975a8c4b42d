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
 * and then. The request's handler receives `close`. All connections are checked periodically: a
 * timer reset by every write would cost more than the write's own bookkeeping. Returns a function
 * that stops the checks.
 */
export function enforceWriteDeadline(
  server: Server,
  timeoutMs: number,
  onCut: (address: string) => void,
): () => void {
  const marks = new Map<Socket, Mark>();
  server.on("connection", (socket) => {
    // A connection forwarded from another thread has its reader, and its deadline, there.
    if (!(socket instanceof Socket)) return;
    marks.set(socket, { sinceMs: performance.now(), takenBytes: 0 });
    socket.once("close", () => marks.delete(socket));
  });
  const look = () => {
    const nowMs = performance.now();
    for (const [socket, mark] of marks) {
      const { writableLength } = socket;
      const takenBytes = socket.bytesWritten - writableLength;
      if (writableLength === 0 || takenBytes > mark.takenBytes) {
        mark.sinceMs = nowMs;
        mark.takenBytes = takenBytes;
      } else if (nowMs - mark.sinceMs >= timeoutMs) {
        onCut(socket.remoteAddress ?? "unknown");
        socket.destroy();
      }
    }
  };
  const timer = setInterval(look, Math.min(LOOK_MS_MAX, timeoutMs / LOOKS_PER_DEADLINE));
  timer.unref();
  return () => clearInterval(timer);
}
