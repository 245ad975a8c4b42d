import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { PeerAddress } from "./contract.ts";
import { takeDescriptor } from "./descriptor.ts";
import { FrameReader } from "./frames.ts";
import { introduce, type Purpose } from "./handshake.ts";
import type { TransferClientOptions } from "./options.ts";
import { tlsParts } from "./server.ts";
import { TransferError } from "./transfer-error.ts";

const CONNECT_MS = 5000;

/** A connection to a peer, encrypted where that is wanted. */
export function openSocket({ host, port }: PeerAddress, { tls }: TransferClientOptions): Socket {
  if (tls === undefined) return connect({ host, port });
  return connectTls({ host, port, ...tlsParts(tls) });
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
    return await act(socket);
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
