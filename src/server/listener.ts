import { lookup } from "node:dns/promises";
import { createServer, type Server, type Socket } from "node:net";
import { EngineError, messageOf } from "#base";

/** A name with addresses of both families; the server listens at all of them. */
const LOCALHOST = "localhost";

const TCP_KEEP_ALIVE_MS = 30_000;

/** Takes a paused connection: no bytes are read before `socket.resume()`. */
export type TakeConnection = (socket: Socket) => void;

/**
 * Holds an address from the start, so that a port in use is detected before slow work begins, and
 * passes connections to the current target.
 */
export class Listener {
  readonly #servers: readonly Server[];
  #target: TakeConnection;

  private constructor(servers: readonly Server[], target: TakeConnection) {
    this.#servers = servers;
    this.#target = target;
    for (const server of servers) server.on("connection", (socket) => this.#target(socket));
  }

  /** Throws IO if the address cannot be used. Port 0: a free port. */
  static async open(host: string, port: number, target: TakeConnection): Promise<Listener> {
    const servers: Server[] = [];
    try {
      const [first = host, ...others] = await addressesOf(host);
      const main = await listen(first, port);
      servers.push(main);
      const address = main.address();
      const bound = typeof address === "object" && address !== null ? address.port : port;
      for (const other of others) {
        // A name may resolve to an address of a family that the machine cannot use.
        const server = await listen(other, bound).catch(() => null);
        if (server !== null) servers.push(server);
      }
      return new Listener(servers, target);
    } catch (error) {
      const message = `Cannot listen on ${host}:${port}: ${messageOf(error)}; ${remedyOf(error)}`;
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

  /** Passes new connections to `target` from now on. */
  direct(target: TakeConnection): void {
    this.#target = target;
  }

  /** Accepts no more connections; accepted ones stay with their targets. */
  stop(): void {
    for (const server of this.#servers) server.close();
  }
}

/** What helps where an address cannot be used. */
function remedyOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : null;
  if (code === "EADDRNOTAVAIL") return "choose an address of this machine";
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "check the name";
  if (code === "EACCES") return "choose a port of 1024 or more, or grant CAP_NET_BIND_SERVICE";
  return "choose another port";
}

async function addressesOf(host: string): Promise<string[]> {
  if (host !== LOCALHOST) return [host];
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

/** Same socket options as Node's HTTP server, which handles half-open connections itself. */
function listen(host: string, port: number): Promise<Server> {
  const server = createServer({
    ...{ allowHalfOpen: true, noDelay: true, pauseOnConnect: true },
    // TCP keep-alive detects peers that vanished silently.
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
