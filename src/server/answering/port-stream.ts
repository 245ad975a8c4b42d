import { Duplex } from "node:stream";
import type { MessagePort } from "node:worker_threads";

/** Unacknowledged bytes from which on writes wait for the other side. */
const WINDOW_BYTES = 256 * 1024;

/** Data, an acknowledgement (number of bytes taken), or null: this side's end. */
type PortMessage = Uint8Array | number | null;

/**
 * A connection between two threads: a byte stream over a port, with an end for each direction and
 * with backpressure. Node's HTTP servers and clients use it as a socket.
 */
export class PortStream extends Duplex {
  readonly #port: MessagePort;
  /** Bytes written and not yet acknowledged by the other side. */
  #unacknowledged = 0;
  #waiting: (() => void) | null = null;
  /** Bytes received and not yet acknowledged; acknowledged when the reader wants more. */
  #untold = 0;
  /** The other side has ended its direction. */
  #otherEnded = false;

  constructor(port: MessagePort) {
    super({ allowHalfOpen: true });
    this.#port = port;
    port.on("message", (message: PortMessage) => this.#receive(message));
    port.on("close", () => this.#closed());
  }

  /** Socket methods that Node's HTTP calls; without effect here. */
  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  /** As in sockets: destroys the stream when all data is written. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy());
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: () => void): void {
    // A copy: posting a view would also copy the rest of its buffer.
    const bytes = Uint8Array.from(chunk);
    this.#unacknowledged += bytes.length;
    this.#post(bytes);
    if (this.#unacknowledged < WINDOW_BYTES) done();
    else this.#waiting = done;
  }

  override _final(done: () => void): void {
    this.#post(null);
    done();
  }

  override _read(): void {
    this.#tell();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#port.close();
    done(error);
  }

  #receive(message: PortMessage): void {
    if (this.destroyed) return;
    if (message === null) {
      this.#otherEnded = true;
      this.push(null);
    } else if (typeof message === "number") {
      this.#unacknowledged -= message;
      const done = this.#waiting;
      if (this.#unacknowledged >= WINDOW_BYTES || done === null) return;
      this.#waiting = null;
      done();
    } else {
      this.#untold += message.length;
      if (this.push(message)) this.#tell();
    }
  }

  #tell(): void {
    if (this.#untold === 0) return;
    this.#post(this.#untold);
    this.#untold = 0;
  }

  #post(message: PortMessage): void {
    this.#port.postMessage(message);
  }

  /** The other side is gone; data of an ended direction is read first. */
  #closed(): void {
    if (!this.#otherEnded || this.readableEnded) this.destroy();
    else this.once("end", () => this.destroy());
  }
}
