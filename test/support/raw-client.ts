/** A client that reads as it likes: sockets of its own, and no HTTP library that reads ahead. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** One byte at a time from the system, and none before it is asked for again. */
const SIP = { buffer: Buffer.alloc(1), callback: () => false };

/** A connection to a server, on which nothing is read unless a test does so. */
export class RawClient {
  readonly socket: Socket;
  /** The connection is gone, by whomever. */
  readonly closed: Promise<void>;

  /** `sipEveryMs`: reads one byte so often. */
  constructor(url: string, sipEveryMs: number | null = null) {
    const { hostname, port } = new URL(url);
    const address = { host: hostname, port: Number(port) };
    this.socket = sipEveryMs === null ? connect(address) : connect({ ...address, onread: SIP });
    if (sipEveryMs !== null) {
      const timer = setInterval(() => this.socket.resume(), sipEveryMs);
      this.socket.once("close", () => clearInterval(timer));
    }
    this.socket.on("error", () => {}); // cut off, as is to be expected
    this.closed = new Promise((resolve) => this.socket.once("close", () => resolve()));
  }

  /** Sends a POST with a JSON body. */
  post(path: string, body: unknown): this {
    const text = JSON.stringify(body);
    return this.send(
      `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n` +
        `content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
    );
  }

  get(path: string): this {
    return this.send(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  }

  send(text: string): this {
    this.socket.write(text);
    return this;
  }

  /** All that comes until the end of the connection, at most `bytes` of it. */
  async read(bytes = Number.POSITIVE_INFINITY): Promise<string> {
    const parts: Buffer[] = [];
    let length = 0;
    for await (const part of this.socket.iterator({ destroyOnReturn: false })) {
      parts.push(part);
      length += part.length;
      if (length >= bytes) break;
    }
    return Buffer.concat(parts).toString();
  }

  /** Whether the server has cut the connection: who reads nothing is not told. */
  async cut(): Promise<void> {
    this.socket.resume();
    await this.closed;
  }

  async connected(): Promise<this> {
    if (this.socket.connecting) await once(this.socket, "connect");
    return this;
  }

  hangUp(): void {
    this.socket.destroy();
  }
}
