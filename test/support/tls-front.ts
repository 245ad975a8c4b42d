/** TLS before a server that has none, as a proxy of an operator is. */
import { connect, type Socket } from "node:net";
import { createServer, type Server } from "node:tls";

export class TlsFront {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(
    targetPort: number,
    tls: { readonly cert: string; readonly key: string },
  ): Promise<TlsFront> {
    const server = createServer(tls);
    const front = new TlsFront(server);
    server.on("tlsClientError", () => {});
    server.on("secureConnection", (client) => {
      const target = connect(targetPort, "127.0.0.1");
      for (const [from, to] of [
        [client, target],
        [target, client],
      ] as const) {
        front.#sockets.add(from);
        from.on("error", () => to.destroy());
        from.once("close", () => {
          front.#sockets.delete(from);
          to.destroy();
        });
        from.pipe(to);
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return front;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("It listens at a port");
    return `https://127.0.0.1:${address.port}`;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
