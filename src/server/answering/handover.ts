/**
 * Connections that go to another thread: Node moves no sockets between threads, but a copy of the
 * descriptor is a socket there, and closing this thread's one does not end the connection.
 */
import type { Socket } from "node:net";
import koffi from "koffi";

/** fcntl's command that copies a descriptor which programs that are started do not get. */
const DUPLICATE_CLOSED_ON_EXEC: Partial<Record<NodeJS.Platform, number>> = {
  linux: 1030,
  darwin: 67,
};

/** Descriptors below are standard input and output, also where these are closed. */
const FIRST_FREE = 3;

type Fcntl = (descriptor: number, command: number, kind: "int", from: number) => number;

interface Duplicator {
  readonly fcntl: Fcntl;
  readonly command: number;
}

let duplicator: Duplicator | null | undefined;

/** Whether this system can do it. */
export function canHandOver(): boolean {
  duplicator ??= openDuplicator();
  return duplicator !== null;
}

/**
 * The number of a descriptor of the same connection, which is its receiver's to close; null where
 * there is none to be had. Of the socket nothing must have been read; it is of no more use.
 */
export function handOver(socket: Socket): number | null {
  const descriptor = descriptorOf(socket);
  if (descriptor === null || !canHandOver() || !duplicator) return null;
  const copy = duplicator.fcntl(descriptor, duplicator.command, "int", FIRST_FREE);
  if (copy < 0) return null;
  // Closes the descriptor and nothing else: `end` would end the connection itself.
  socket.destroy();
  return copy;
}

/** Sockets have their descriptor where no type says so; Windows has none. */
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
    // A system whose C library is not to be found by its names: connections stay where they are.
    return null;
  }
}
