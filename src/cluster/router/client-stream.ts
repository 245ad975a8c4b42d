import type { ServerResponse } from "node:http";
import { OPENAI, type StreamForm } from "#server";
import { idleDescriptor, writeNow } from "./direct-writes.ts";

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

/**
 * A streamed answer to a client, made of the bytes of one or several workers. Text is Latin-1: a
 * byte each, so that nothing is decoded.
 */
export class ClientStream {
  readonly #response: ServerResponse;
  readonly #form: Pick<StreamForm, "contentType" | "keepAlive">;
  #begun = false;
  #content = false;
  #sentMs = 0;
  #onRoom: (() => void) | null = null;

  /** `form`: of OpenAI's streams, unless it is given. */
  constructor(
    response: ServerResponse,
    form: Pick<StreamForm, "contentType" | "keepAlive"> = OPENAI.stream,
  ) {
    this.#response = response;
    this.#form = form;
  }

  /** The head was sent: the status cannot change any more. */
  get begun(): boolean {
    return this.#begun;
  }

  /** An event was sent: another worker cannot start over. */
  get hasContent(): boolean {
    return this.#content;
  }

  /** Time of the last bytes, as passed to `write`. */
  get sentMs(): number {
    return this.#sentMs;
  }

  get closed(): boolean {
    const { destroyed, writableEnded, req } = this.#response;
    return destroyed || writableEnded || req.socket.destroyed;
  }

  /** Sends the head of a stream, once. */
  begin(headers: Headers): void {
    if (this.#begun || this.closed) return;
    this.#begun = true;
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) this.#response.setHeader(name, value);
    }
    this.#response.writeHead(200, {
      "content-type": this.#form.contentType,
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would collect the stream otherwise
    });
    this.#response.flushHeaders();
    this.#response.socket?.setNoDelay(true);
  }

  /** Sends whole events or comments. False: the reader must be waited for, by `onRoom`. */
  write(latin1: string, nowMs: number, isContent: boolean): boolean {
    if (latin1 === "" || this.closed) return true;
    this.#content ||= isContent;
    this.#sentMs = nowMs;
    const { socket, chunkedEncoding } = this.#response;
    if (socket === null || !chunkedEncoding) this.#response.write(latin1, "latin1");
    // One write instead of the response's three: most of a token's cost is the system's.
    else writeNow(socket, `${latin1.length.toString(16)}\r\n${latin1}\r\n`);
    return !this.#isFull;
  }

  /** Of a connection that takes chunks of events from others, too; -1: not now. */
  get descriptor(): number {
    const { socket, chunkedEncoding } = this.#response;
    if (!this.#content || socket === null || !chunkedEncoding || this.closed) return -1;
    return this.#isFull ? -1 : idleDescriptor(socket);
  }

  /** Others have sent whole chunks, but for `rest`. False: as of `write`. */
  wasSent(rest: Buffer, nowMs: number): boolean {
    this.#sentMs = nowMs;
    const { socket } = this.#response;
    if (rest.length > 0 && socket !== null && !this.closed) socket.write(rest);
    return !this.#isFull;
  }

  /** Calls back once, when the reader has taken what was sent. */
  onRoom(callback: () => void): void {
    const waiting = this.#onRoom !== null;
    this.#onRoom = callback;
    if (waiting) return;
    const { socket } = this.#response.req;
    const done = () => {
      if (this.#isFull && !this.closed) return;
      socket.off("drain", done).off("close", done);
      this.#response.off("drain", done);
      const resume = this.#onRoom;
      this.#onRoom = null;
      resume?.();
    };
    socket.on("drain", done).on("close", done);
    this.#response.on("drain", done);
  }

  /** What clients skip, where nothing waits for the reader, and the form has such a thing. */
  keepAlive(nowMs: number): void {
    if (this.#begun && !this.#isFull) this.write(this.#form.keepAlive, nowMs, false);
  }

  /** Ends the answer; without `[DONE]` where the worker's own was relayed. */
  end(latin1 = ""): void {
    if (!this.closed) this.#response.end(latin1, "latin1");
  }

  get #isFull(): boolean {
    const { socket, writableNeedDrain } = this.#response;
    return writableNeedDrain || socket?.writableNeedDrain === true;
  }
}
