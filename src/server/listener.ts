import { lookup } from "node:dns/promises";
import { createServer, type Server, type Socket } from "node:net";
import { EngineError, messageOf } from "#base";

/** A name that stands for addresses of both families: whoever asks for it wants them all. */
const LOCALHOST = "localhost";

const TCP_KEEP_ALIVE_MS = 30_000;

/** Takes a connection of which nothing is read before `socket.resume()`. */
export type TakeConnection = (socket: Socket) => void;

/**
 * Holds an address from the start, so that a port in use is found before anything long begins, and
 * gives connections to whoever is to answer them at the moment.
 */
export class Listener {
  readonly #servers: readonly Server[];
  #target: TakeConnection;

  private constructor(servers: readonly Server[], target: TakeConnection) {
    this.#servers = servers;
    this.#target = target;
    for (const server of servers) server.on("connection", (socket) => this.#target(socket));
  }

  /** Throws IO where the address cannot be used. Port 0: a free one. */
  static async open(host: string, port: number, target: TakeConnection): Promise<Listener> {
    const servers: Server[] = [];
    try {
      const [first = host, ...others] = await addressesOf(host);
      const main = await listen(first, port);
      servers.push(main);
      const address = main.address();
      const bound = typeof address === "object" && address !== null ? address.port : port;
      for (const other of others) {
        // A machine may have a name for an address of a family that it cannot use.
        const server = await listen(other, bound).catch(() => null);
        if (server !== null) servers.push(server);
      }
      return new Listener(servers, target);
    } catch (error) {
      const message = `Cannot listen on ${host}:${port}: ${messageOf(error)}; choose another port`;
      throw new EngineError("IO", message, { cause: error, param: "port" });
    }
  }

  /** E.g. `http://127.0.0.1:8000`. */
  get url(): string {
    const address = this.#servers[0]?.address() ?? null;
    if (address === null || typeof address === "string") return "";
    const host = address.family === "IPv6" ? `[${address.address}]` : address.address;
    return `http://${host}:${address.port}`;
  }

  /** From now on connections go there. */
  direct(target: TakeConnection): void {
    this.#target = target;
  }

  /** Takes no more connections; those that were taken are their targets'. */
  stop(): void {
    for (const server of this.#servers) server.close();
  }
}

async function addressesOf(host: string): Promise<string[]> {
  if (host !== LOCALHOST) return [host];
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** As Node's HTTP server would: half-open connections are its own business. */
function listen(host: string, port: number): Promise<Server> {
  const server = createServer({
    ...{ allowHalfOpen: true, noDelay: true, pauseOnConnect: true },
    // Peers that vanish without a word are asked, in the end, whether they are there.
    ...{ keepAlive: true, keepAliveInitialDelay: TCP_KEEP_ALIVE_MS },
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, () => {
      server.off("error", reject);
      resolve(server);
    });
  });
}
