/** A TCP relay between a client and a server that can be cut, and turned to another server. */
import { connect, createServer, type Server, type Socket } from "node:net";

export class CutProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #targetPort: number;
  cuts = 0;

  private constructor(server: Server, targetPort: number) {
    this.#server = server;
    this.#targetPort = targetPort;
    server.on("connection", (client) => this.#relay(client));
  }

  static async start(targetPort: number): Promise<CutProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new CutProxy(server, targetPort);
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("It listens at a port");
    return address.port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Further connections go to another server. */
  turnTo(targetPort: number): void {
    this.#targetPort = targetPort;
  }

  /** Ends all connections, in the middle of what they carry. */
  cut(): void {
    this.cuts++;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #relay(client: Socket): void {
    const target = connect(this.#targetPort, "127.0.0.1");
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      this.#sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  }
}
