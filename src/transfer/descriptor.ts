/** Takes a connection's descriptor out of Node, which has read nothing beyond the handshake. */
import type { Socket } from "node:net";
import koffi from "koffi";

/** fcntl's F_DUPFD_CLOEXEC on Linux, where the native library is. */
const DUPLICATE_CLOSED_ON_EXEC = 1030;
const FIRST_FREE = 3;

type Fcntl = (descriptor: number, command: number, kind: "int", from: number) => number;

let fcntl: Fcntl | undefined;

/** A duplicate, which its receiver closes; null if none can be made. The socket is destroyed. */
export function takeDescriptor(socket: Socket): number | null {
  fcntl ??= koffi.load(null).func("int fcntl(int descriptor, int command, ...)") as Fcntl;
  const descriptor = descriptorOf(socket);
  const copy =
    descriptor === null ? -1 : fcntl(descriptor, DUPLICATE_CLOSED_ON_EXEC, "int", FIRST_FREE);
  // Closes the descriptor, and not the connection.
  socket.destroy();
  return copy < 0 ? null : copy;
}

/** From a field that Node does not document. */
function descriptorOf(socket: Socket): number | null {
  const handle: unknown = "_handle" in socket ? socket._handle : null;
  const isHandle = typeof handle === "object" && handle !== null && "fd" in handle;
  const descriptor = isHandle ? handle.fd : null;
  return typeof descriptor === "number" && descriptor >= 0 ? descriptor : null;
}
