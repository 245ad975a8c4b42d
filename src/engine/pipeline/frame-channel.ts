/**
 * Messages over a local stream between a stage and the one behind it. Each is a length and a value
 * as `v8.serialize` writes it. Both ends are this program: one started the other, with a stream
 * that no other process can open.
 */
import type { Duplex } from "node:stream";
import { deserialize, serialize } from "node:v8";

const LENGTH_BYTES = 4;
/** Far more than any message: what is longer is no message. */
const FRAME_BYTES_MAX = 2 ** 30;

export interface ChannelEvents<In> {
  onMessage(message: In): void;
  /** The other end is gone, or what it sends cannot be read. Called once. */
  onEnd(reason: string): void;
}

/** One end: sends `Out`, receives `In`. */
export class FrameChannel<In, Out> {
  readonly #stream: Duplex;
  #events: ChannelEvents<In> | null = null;
  #parts: Buffer[] = [];
  #bytes = 0;
  #ended = false;

  constructor(stream: Duplex) {
    this.#stream = stream;
    stream.on("data", (part: Buffer) => this.#take(part));
    stream.on("end", () => this.#end("the stream ended"));
    stream.on("close", () => this.#end("the stream was closed"));
    stream.on("error", (error) => this.#end(error.message));
    stream.pause();
  }

  /** From now on messages are received. */
  listen(events: ChannelEvents<In>): void {
    this.#events = events;
    this.#stream.resume();
  }

  /** What is sent to an end that is gone is lost: `onEnd` tells of it. */
  send(message: Out): void {
    if (this.#ended) return;
    const body = serialize(message);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(body.length);
    this.#stream.cork();
    this.#stream.write(length);
    this.#stream.write(body);
    this.#stream.uncork();
  }

  /** Ends the stream once all that was sent has left. */
  close(): void {
    this.#ended = true;
    this.#stream.end();
  }

  #take(part: Buffer): void {
    this.#parts.push(part);
    this.#bytes += part.length;
    for (;;) {
      if (this.#bytes < LENGTH_BYTES) return;
      const length = this.#headOf(LENGTH_BYTES).readUInt32LE(0);
      if (length > FRAME_BYTES_MAX) {
        this.#stream.destroy();
        this.#end(`it sent a message of ${length} bytes`);
        return;
      }
      if (this.#bytes < LENGTH_BYTES + length) return;
      const frame = this.#headOf(LENGTH_BYTES + length);
      this.#parts = [frame.subarray(LENGTH_BYTES + length)];
      this.#bytes -= LENGTH_BYTES + length;
      const body = frame.subarray(LENGTH_BYTES, LENGTH_BYTES + length);
      // The other end is this program.
      this.#events?.onMessage(deserialize(body) as In);
    }
  }

  /** The first part, made so long that it has as many bytes. */
  #headOf(bytes: number): Buffer {
    const [first] = this.#parts;
    if (first !== undefined && first.length >= bytes) return first;
    const head = Buffer.concat(this.#parts);
    this.#parts = [head];
    return head;
  }

  #end(reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#events?.onEnd(reason);
  }
}
