/**
 * Writes to connections that have nothing to wait for: one call of the system, and nothing of what
 * a stream of Node's does around it.
 */
import type { Socket } from "node:net";
import koffi from "koffi";

type Send = (descriptor: number, bytes: Buffer, length: number, flags: number) => number;

/** MSG_DONTWAIT and MSG_NOSIGNAL of Linux; elsewhere sockets write. */
const FLAGS = 0x40 | 0x4000;

/** Longer texts are rare, and are the socket's. */
const TEXT_BYTES_MAX = 2 ** 16;

/** Of all connections: what is written is the system's when the call returns. */
const buffer = Buffer.allocUnsafeSlow(TEXT_BYTES_MAX);

/** Not tried yet; null: this system has none. */
let send: Send | null | undefined;

/** As `socket.write(latin1, "latin1")`, in the order of all writes. */
export function writeNow(socket: Socket, latin1: string): void {
  const descriptor = latin1.length > TEXT_BYTES_MAX ? -1 : idleDescriptor(socket);
  send ??= openSend();
  if (send === null || descriptor < 0) {
    socket.write(latin1, "latin1");
    return;
  }
  const length = buffer.write(latin1, "latin1");
  const sent = send(descriptor, buffer, length, FLAGS);
  if (sent === length) return;
  // Full, or failed: the socket waits for room, or finds the failure.
  if (sent <= 0) socket.write(latin1, "latin1");
  else socket.write(latin1.slice(sent), "latin1");
}

/** -1: bytes wait to be written, or the connection is none of plain TCP that is open. */
export function idleDescriptor(socket: Socket): number {
  const isIdle = socket.writableLength === 0 && socket.writableCorked === 0;
  return isIdle && socket.writable ? descriptorOf(socket) : -1;
}

/** -1: the connection is none of plain TCP that is open. */
export function descriptorOf(socket: Socket): number {
  if (socket.destroyed || socket.connecting || "encrypted" in socket) return -1;
  // Undocumented: where it is no number, the socket writes.
  const handle: unknown = "_handle" in socket ? socket._handle : null;
  const isHandle = typeof handle === "object" && handle !== null && "fd" in handle;
  return isHandle && typeof handle.fd === "number" ? handle.fd : -1;
}

function openSend(): Send | null {
  if (process.platform !== "linux") return null;
  try {
    return koffi
      .load(null)
      .func("long send(int socket, const uint8_t *bytes, size_t n, int flags)");
  } catch {
    return null; // the C library's functions cannot be loaded
  }
}
