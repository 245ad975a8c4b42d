import { Duplex } from "node:stream";
import type { MessagePort } from "node:worker_threads";

/** Bytes that may be under way before the other side has said that it took them. */
const WINDOW_BYTES = 256 * 1024;

/** Bytes, how many of the other side's were taken, or the end of this side's. */
type PortMessage = Uint8Array | number | null;

/**
 * A connection between two threads: a stream of bytes over a port, with an end for each direction,
 * that waits for slow readers. Node's HTTP servers and clients take it for a socket.
 */
export class PortStream extends Duplex {
  readonly #port: MessagePort;
  /** Written, and not yet taken by the other side. */
  #unacknowledged = 0;
  #waiting: (() => void) | null = null;
  /** Received while the reader had enough; told when it wants more. */
  #untold = 0;
  /** The other side said that no more comes. */
  #otherEnded = false;

  constructor(port: MessagePort) {
    super({ allowHalfOpen: true });
    this.#port = port;
    port.on("message", (message: PortMessage) => this.#receive(message));
    port.on("close", () => this.#closed());
  }

  /** What HTTP asks of sockets, and has no meaning here. */
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

  /** As sockets do: ends when everything is written. */
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once("finish", () => this.destroy());
  }

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: () => void): void {
    // A copy of its own: a view would take along all of the buffer that it is a part of.
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

  /** The other side is gone; what it sent to its end is read first. */
  #closed(): void {
    if (!this.#otherEnded || this.readableEnded) this.destroy();
    else this.once("end", () => this.destroy());
  }
}
