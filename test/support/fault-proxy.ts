/** A network between a client and a server that fails in every way in which TCP can. */
import { connect, createServer, type Server, type Socket } from "node:net";

/** What happens to what is carried, until it is changed. */
export type NetworkState =
  | { readonly type: "well" }
  /** Each piece is this much later. */
  | { readonly type: "slow"; readonly delayMs: number }
  /** Connections stay open and carry nothing. */
  | { readonly type: "silent" }
  /** Connections are closed as soon as they are made. */
  | { readonly type: "refusing" }
  /** Whatever is asked, the answer is this status of HTTP. */
  | { readonly type: "answering"; readonly status: number };

const WELL: NetworkState = { type: "well" };

export class FaultProxy {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #sockets = new Set<Socket>();
  /** The ends towards clients. */
  readonly #clients = new Set<Socket>();
  #state: NetworkState = WELL;
  #waiting: (() => void)[] = [];
  /** Bytes towards clients until all connections are cut; null: they are not. */
  #bytesLeft: number | null = null;

  private constructor(server: Server, targetPort: number) {
    this.#server = server;
    this.#targetPort = targetPort;
    server.on("connection", (client) => this.#take(client));
  }

  static async start(targetPort: number): Promise<FaultProxy> {
    const server = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new FaultProxy(server, targetPort);
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("It listens at a port");
    return `http://127.0.0.1:${address.port}`;
  }

  /** Holds for open connections, too; what was held back goes on. */
  become(state: NetworkState): void {
    this.#state = state;
    if (state.type === "silent") return;
    for (const go of this.#waiting.splice(0)) go();
  }

  heal(): void {
    this.#bytesLeft = null;
    this.become(WELL);
  }

  /** Resets all connections, in the middle of what they carry. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Resets all connections after so many further bytes of answers, wherever that is. */
  cutAfter(bytes: number): void {
    this.#bytesLeft = bytes;
  }

  /** Tells clients that nothing more comes; what they send still arrives. */
  halfClose(): void {
    for (const socket of this.#clients) socket.end();
  }

  async close(): Promise<void> {
    this.heal();
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #take(client: Socket): void {
    if (this.#state.type === "refusing") {
      client.on("error", () => {});
      client.resetAndDestroy();
      return;
    }
    const target = connect({ port: this.#targetPort, host: "127.0.0.1", allowHalfOpen: true });
    this.#clients.add(client);
    client.once("close", () => this.#clients.delete(client));
    this.#carry(client, target, false);
    this.#carry(target, client, true);
  }

  #carry(from: Socket, to: Socket, isAnswer: boolean): void {
    this.#sockets.add(from);
    from.setNoDelay(true);
    from.on("error", () => {});
    from.once("close", () => {
      this.#sockets.delete(from);
      to.destroy();
    });
    let last = Promise.resolve();
    from.on("data", (bytes: Buffer) => {
      from.pause();
      last = this.#whenDue().then(() => {
        if (!isAnswer && this.#answered(from)) return;
        if (isAnswer && this.#isCutBy(bytes.length)) return;
        if (to.writable) to.write(bytes);
        if (to.writableNeedDrain) to.once("drain", () => from.resume());
        else from.resume();
      });
    });
    from.once("end", () => void last.then(() => to.end()));
  }

  async #whenDue(): Promise<void> {
    const state = this.#state;
    if (state.type === "slow") await new Promise((go) => setTimeout(go, state.delayMs));
    while (this.#state.type === "silent") {
      await new Promise<void>((go) => this.#waiting.push(go));
    }
  }

  /** Whether the network itself has answered what a client asks. */
  #answered(client: Socket): boolean {
    if (this.#state.type !== "answering") return false;
    const { status } = this.#state;
    const body = '{"error":{"message":"planted"}}';
    const head = `HTTP/1.1 ${status} Planted\r\ncontent-type: application/json\r\n`;
    client.end(`${head}connection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
    client.resume();
    return true;
  }

  #isCutBy(bytes: number): boolean {
    if (this.#bytesLeft === null) return false;
    this.#bytesLeft -= bytes;
    if (this.#bytesLeft > 0) return false;
    this.#bytesLeft = null;
    this.cut();
    return true;
  }
}
