/** Servers and proxies of raw bytes, for peers that fail. */
import { connect, createServer, type Server, type Socket } from "node:net";

export interface Listening {
  readonly server: Server;
  readonly port: number;
}

export function listening(serve: (socket: Socket) => void): Promise<Listening> {
  return new Promise((resolve) => {
    const made = createServer(serve).listen(0, "127.0.0.1", () => {
      const address = made.address();
      resolve({ server: made, port: typeof address === "object" ? (address?.port ?? 0) : 0 });
    });
  });
}

/** What becomes of bytes from the server, `total` with them; null cuts the connection. */
export type ChangeBytes = (chunk: Buffer, total: number) => Buffer | null;

/** Bytes between a client and the server at `port`: those to the client as `change` leaves them. */
export async function between(port: number, change: ChangeBytes) {
  const sockets = new Set<Socket>();
  let total = 0;
  const proxy = await listening((socket) => {
    const through = connect(port, "127.0.0.1");
    for (const each of [socket, through]) {
      sockets.add(each);
      each.on("error", () => {});
      each.on("close", () => {
        socket.destroy();
        through.destroy();
      });
    }
    socket.on("data", (chunk) => through.write(chunk));
    through.on("data", (chunk) => {
      total += chunk.byteLength;
      const changed = change(chunk, total);
      if (changed === null) socket.destroy();
      else socket.write(changed);
    });
  });
  const close = () => {
    for (const socket of sockets) socket.destroy();
    proxy.server.close();
  };
  return { peer: { host: "127.0.0.1", port: proxy.port }, close };
}
