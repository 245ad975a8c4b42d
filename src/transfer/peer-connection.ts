import { connect, type Socket } from "node:net";
import type { PeerAddress } from "./contract.ts";
import { takeDescriptor } from "./descriptor.ts";
import { connectEncrypted, encrypted } from "./encryption.ts";
import { FrameReader } from "./frames.ts";
import { introduce, type Purpose } from "./handshake.ts";
import type { TransferClientOptions } from "./options.ts";
import { TransferError } from "./transfer-error.ts";

const CONNECT_MS = 5000;

/** A connection to a peer, encrypted where that is wanted. */
export function openSocket(peer: PeerAddress, { tls }: TransferClientOptions): Socket {
  return tls === undefined ? connect(peer.port, peer.host) : connectEncrypted(peer, tls);
}

/** Opens a data connection. Rejects with a TransferError. */
export async function openLink(
  peer: PeerAddress,
  options: TransferClientOptions,
  purpose: Purpose,
): Promise<number> {
  const socket = openSocket(peer, options);
  await within(options, socket, (each) =>
    introduce(each, options.secret ?? "", purpose, new FrameReader()),
  );
  const fd = takeDescriptor(socket);
  if (fd === null) throw new TransferError("closed", "the connection ended");
  return fd;
}

/** The handshake of a new connection, which ends with it if it fails or takes too long. */
export async function within<T>(
  { connectMs = CONNECT_MS }: TransferClientOptions,
  socket: Socket,
  act: (socket: Socket) => Promise<T>,
): Promise<T> {
  const timer = setTimeout(() => {
    socket.destroy(new Error(`no answer within ${connectMs} ms`));
  }, connectMs);
  socket.on("error", () => {});
  try {
    await encrypted(socket);
    return await act(socket);
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
