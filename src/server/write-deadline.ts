/** Connections whose readers do not take what is written to them. */
import type { Server } from "node:http";
import { Socket } from "node:net";

/** Looks per deadline: a reader is cut this share of it late, at most. */
const LOOKS_PER_DEADLINE = 8;
const LOOK_MS_MAX = 1000;

/** When a reader took something last, and how much it had taken then. */
interface Mark {
  sinceMs: number;
  takenBytes: number;
}

/**
 * Destroys connections of `server` on which bytes wait and of which the system takes no whole write
 * for `timeoutMs`: stalled readers, peers that vanished, and those that read a byte now and then.
 * Whoever answers there sees the connection close. A look at all connections now and then: a timer
 * that every write moves would cost more than the write's own bookkeeping. Returns the way to stop.
 */
export function enforceWriteDeadline(
  server: Server,
  timeoutMs: number,
  onCut: (address: string) => void,
): () => void {
  const marks = new Map<Socket, Mark>();
  server.on("connection", (socket) => {
    // What another thread lets through has its reader, and its deadline, there.
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
