import type { ServerResponse } from "node:http";

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

/** Text that waits for the end of a turn is written before when there is more of it. */
const WRITE_CHARACTERS_MAX = 2 ** 16;

/** One event whose data is the value's JSON. */
export function eventText(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/** Streams with text that waits for the end of the event loop's turn. */
const unwritten: EventStream[] = [];

function writeAll(): void {
  for (const stream of unwritten.splice(0)) stream.flush();
}

export interface EventStreamOptions {
  readonly headers: Headers;
  /** Longest silence. */
  readonly keepAliveMs: number;
  /** Ends waiting for the reader. */
  readonly signal?: AbortSignal;
}

/**
 * Server-sent events on one response. Waits for slow readers, and knows when they are gone. While
 * there is nothing to send, comments keep clients and proxies from taking the silence for an end.
 * Events of one turn of the event loop go out as one write: most of a token's cost is the write.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #options: EventStreamOptions;
  #keepAlive: NodeJS.Timeout;
  #sentMs = performance.now();
  /** The response has sent its headers: what follows is bytes of chunks. */
  #begun = false;
  #unwritten = "";

  /** Takes the response over; the caller must not write to it any more, and calls `end`. */
  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response;
    this.#options = options;
    this.#keepAlive = setTimeout(() => this.#breakSilence(), options.keepAliveMs);
    response.once("close", () => clearTimeout(this.#keepAlive));
    for (const [name, value] of Object.entries(options.headers)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would collect the stream otherwise
    });
    response.socket?.setNoDelay(true);
  }

  /** A response that waits behind another one has no connection of its own yet: the request has. */
  get closed(): boolean {
    const { destroyed, writableEnded, req } = this.#response;
    return destroyed || writableEnded || req.socket.destroyed;
  }

  /**
   * Sends text that is whole events. Null: there is room for more; else what resolves when there
   * is, when the reader is gone, or at the signal.
   */
  send(events: string): Promise<void> | null {
    if (this.closed || events === "") return null;
    this.#sentMs = performance.now();
    this.#unwritten += events;
    // The first token does not wait.
    if (!this.#begun || this.#unwritten.length > WRITE_CHARACTERS_MAX) this.flush();
    else if (this.#unwritten.length === events.length && unwritten.push(this) === 1) {
      setImmediate(writeAll);
    }
    return this.#isFull ? this.#room() : null;
  }

  /** Writes what waits for the end of the turn. */
  flush(): void {
    const text = this.#unwritten;
    this.#unwritten = "";
    if (text !== "" && !this.closed) this.#put(text);
  }

  /** Sends what clients skip. Nothing where the reader has not yet taken what was sent before. */
  comment(text: string): void {
    this.flush();
    if (!this.closed && !this.#isFull) this.#put(`: ${text}\n\n`);
  }

  /** The last event, and the end of the response. */
  end(): void {
    this.#finish("data: [DONE]\n\n");
  }

  /** Ends the response without a last event. */
  close(): void {
    this.#finish("");
  }

  /** Ends the connection of a reader that does not take what was sent; nothing, where it does. */
  cutOff(): void {
    if (this.#isFull) this.#response.req.socket.destroy();
  }

  /**
   * Frames chunks itself, in one piece: the response would write three for each, and end them in a
   * later turn, which is most of a token's cost.
   */
  #put(text: string): void {
    const { socket, chunkedEncoding } = this.#response;
    // Headers go with the first piece; a response that waits behind another one has no socket yet.
    if (!this.#begun || socket === null || !chunkedEncoding) {
      this.#begun = true;
      this.#response.write(text);
      return;
    }
    socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
  }

  /** Whether the reader is to be waited for. */
  get #isFull(): boolean {
    const { socket, writableNeedDrain } = this.#response;
    return writableNeedDrain || socket?.writableNeedDrain === true;
  }

  /** Looks at the time only when a silence may be over: a timer moved by every token costs more. */
  #breakSilence(): void {
    if (this.closed) return;
    const { keepAliveMs } = this.#options;
    const silentMs = performance.now() - this.#sentMs;
    const isSilent = silentMs >= keepAliveMs;
    if (isSilent) this.comment("keep-alive");
    const nextMs = isSilent ? keepAliveMs : keepAliveMs - silentMs;
    this.#keepAlive = setTimeout(() => this.#breakSilence(), nextMs);
  }

  #finish(text: string): void {
    clearTimeout(this.#keepAlive);
    this.flush();
    if (!this.closed) this.#response.end(text);
  }

  #room(): Promise<void> {
    const response = this.#response;
    const { signal } = this.#options;
    const connection = response.req.socket;
    return new Promise((resolve) => {
      const done = () => {
        response.off("drain", done).off("close", done);
        connection.off("drain", done).off("close", done);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      response.on("drain", done).on("close", done);
      connection.on("drain", done).on("close", done);
      signal?.addEventListener("abort", done);
      if (signal?.aborted === true || connection.destroyed) done();
    });
  }
}
