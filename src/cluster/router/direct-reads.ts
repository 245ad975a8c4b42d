/**
 * Connections to workers whose bytes are handed on as they are read. A stream of Node's allocates
 * 64 KiB for each read, queues what came and tells of it in a later turn: for a token of 200 bytes
 * that is a third of what its relay costs.
 */
import type { Socket } from "node:net";
import { buildConnector } from "undici";
import { type ConnectorOptions, safeConnector } from "#cluster/http";

/** Of all connections: what is read is used up before the next read. */
const buffer = Buffer.allocUnsafeSlow(2 ** 16);

/**
 * Connects as undici does. What a handler gets of an answer is a view that holds until it returns;
 * https is decrypted by streams, whose bytes are their own.
 */
export function directConnector(given: ConnectorOptions): buildConnector.connector {
  const secure = safeConnector(given);
  return (options, callback) => {
    if (options.protocol === "https:") {
      secure(options, callback);
      return;
    }
    const reads = new DirectReads();
    const onread = { buffer, callback: (count: number) => reads.take(count) };
    buildConnector({ timeout: given.connectTimeoutMs, onread })(options, (...answer) => {
      if (answer[0] === null) reads.from(answer[1]);
      callback(...answer);
    });
  };
}

/** Tells nothing, but shows whether the reader takes anything now. */
const NOTHING = Buffer.alloc(0);

/** A socket without a queue: undici is told of bytes in the turn in which they are read. */
class DirectReads {
  #socket: Socket | null = null;
  /** What came and was not taken: the reader has paused. */
  #bytes: Buffer | null = null;
  /** The worker's end has come and waits for the reader. */
  #hasEnded = false;
  #isTelling = false;

  from(socket: Socket): void {
    this.#socket = socket;
    const readOn = socket.read.bind(socket);
    const pushOn = socket.push.bind(socket);
    const end = () => {
      socket.push(null);
      readOn(0);
    };
    socket.read = (size?: number) => {
      if (this.#bytes !== null) {
        if (size !== 0) return this.#taken();
        setImmediate(() => this.#tell());
        return null;
      }
      if (this.#hasEnded) {
        this.#hasEnded = false;
        setImmediate(end);
        return null;
      }
      // There is no more than this read brought.
      return this.#isTelling ? null : readOn(size);
    };
    socket.unshift = (bytes: Buffer) => {
      this.#bytes = bytes.length === 0 ? null : Buffer.from(bytes);
    };
    // undici 7.30 fails an assertion, which ends the process, where an end comes during a pause.
    socket.push = (bytes: unknown) => {
      if (bytes === null && !this.take(0)) {
        this.#hasEnded = true;
        return false;
      }
      return pushOn(bytes);
    };
  }

  /** False: no more is read until the rest is taken. */
  take(count: number): boolean {
    this.#bytes = count === 0 ? NOTHING : buffer.subarray(0, count);
    this.#tell();
    if (this.#bytes === null) return true;
    this.#bytes = Buffer.from(this.#bytes);
    return false;
  }

  #tell(): void {
    if (this.#bytes === null || this.#isTelling) return;
    this.#isTelling = true;
    this.#socket?.emit("readable");
    this.#isTelling = false;
  }

  #taken(): Buffer | null {
    const bytes = this.#bytes;
    this.#bytes = null;
    return bytes;
  }
}
