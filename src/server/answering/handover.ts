/**
 * Hands connections over to another thread: Node cannot move sockets between threads, but the other
 * thread can open a socket on a duplicate of the descriptor, and closing this thread's descriptor
 * does not end the connection.
 */
import type { Socket } from "node:net";
import koffi from "koffi";

/** fcntl's F_DUPFD_CLOEXEC: duplicates a descriptor; child processes do not inherit the copy. */
const DUPLICATE_CLOSED_ON_EXEC: Partial<Record<NodeJS.Platform, number>> = {
  linux: 1030,
  darwin: 67,
};

/** Lower descriptors are standard input, output and error, even if these are closed. */
const FIRST_FREE = 3;

type Fcntl = (descriptor: number, command: number, kind: "int", from: number) => number;

interface Duplicator {
  readonly fcntl: Fcntl;
  readonly command: number;
}

let duplicator: Duplicator | null | undefined;

/** Whether this system can hand connections over. */
export function canHandOver(): boolean {
  duplicator ??= openDuplicator();
  return duplicator !== null;
}

/**
 * A duplicate descriptor of the connection, which its receiver must close; null if none can be
 * made. No bytes may have been read from the socket; on success the socket is destroyed.
 */
export function handOver(socket: Socket): number | null {
  const descriptor = descriptorOf(socket);
  if (descriptor === null || !canHandOver() || !duplicator) return null;
  const copy = duplicator.fcntl(descriptor, duplicator.command, "int", FIRST_FREE);
  if (copy < 0) return null;
  // Closes only the descriptor: `end` would end the connection itself.
  socket.destroy();
  return copy;
}

/** A socket's descriptor, from a field that Node does not document; Windows has none. */
function descriptorOf(socket: Socket): number | null {
  const handle: unknown = "_handle" in socket ? socket._handle : null;
  const isHandle = typeof handle === "object" && handle !== null && "fd" in handle;
  const descriptor = isHandle ? handle.fd : null;
  return typeof descriptor === "number" && descriptor >= 0 ? descriptor : null;
}

function openDuplicator(): Duplicator | null {
  const command = DUPLICATE_CLOSED_ON_EXEC[process.platform];
  if (command === undefined) return null;
  try {
    const fcntl: Fcntl = koffi.load(null).func("int fcntl(int descriptor, int command, ...)");
    return { fcntl, command };
  } catch {
    // The C library's functions cannot be loaded: connections stay on their thread.
    return null;
  }
}
