import type { ServerResponse } from "node:http";
import { OPENAI_STREAM, type StreamForm } from "./dialect.ts";

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

/** Buffered characters above which text is written before the end of the turn. */
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
  /** Maximum silence before a keep-alive comment. */
  readonly keepAliveMs: number;
  /** Ends the wait for a slow reader. */
  readonly signal?: AbortSignal;
  /** Default: OpenAI's. */
  readonly form?: StreamForm;
}

/**
 * Server-sent events on one response. Waits for slow readers and detects disconnects. During
 * silence, comments keep clients and proxies from closing the connection. Events of one turn of the
 * event loop become one write: most of a token's cost is the write.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #options: EventStreamOptions;
  readonly #form: StreamForm;
  #keepAlive: NodeJS.Timeout;
  #sentMs = performance.now();
  /** The response has sent its headers; chunks follow. */
  #begun = false;
  #unwritten = "";

  /** Takes over the response: the caller must no longer write to it, and must call `end`. */
  constructor(response: ServerResponse, options: EventStreamOptions) {
    this.#response = response;
    this.#options = options;
    this.#form = options.form ?? OPENAI_STREAM;
    this.#keepAlive = setTimeout(() => this.#breakSilence(), options.keepAliveMs);
    response.once("close", () => clearTimeout(this.#keepAlive));
    for (const [name, value] of Object.entries(options.headers)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    response.writeHead(200, {
      "content-type": this.#form.contentType,
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would collect the stream otherwise
    });
    response.socket?.setNoDelay(true);
  }

  /** Also checks the request's socket: a pipelined response has no socket of its own yet. */
  get closed(): boolean {
    const { destroyed, writableEnded, req } = this.#response;
    return destroyed || writableEnded || req.socket.destroyed;
  }

  /**
   * Sends the text of whole events. Returns null if more can be sent; otherwise a promise that
   * resolves when more can be sent, when the reader is gone, or at the signal.
   */
  send(events: string): Promise<void> | null {
    if (this.closed || events === "") return null;
    this.#sentMs = performance.now();
    this.#unwritten += events;
    // The first token is written at once.
    if (!this.#begun || this.#unwritten.length > WRITE_CHARACTERS_MAX) this.flush();
    else if (this.#unwritten.length === events.length && unwritten.push(this) === 1) {
      setImmediate(writeAll);
    }
    return this.#isFull ? this.#room() : null;
  }

  /** Writes the text that waits for the end of the turn. */
  flush(): void {
    const text = this.#unwritten;
    this.#unwritten = "";
    if (text !== "" && !this.closed) this.#put(text);
  }

  /** Breaks the silence. Sends nothing while earlier data is still pending. */
  keepAlive(): void {
    this.flush();
    const { keepAlive } = this.#form;
    if (keepAlive !== "" && !this.closed && !this.#isFull) this.#put(keepAlive);
  }

  /** Sends the last event and ends the response. */
  end(): void {
    this.#finish(this.#form.end);
  }

  /** Ends the response without a last event. */
  close(): void {
    this.#finish("");
  }

  /** Closes the connection if the reader has not taken the data sent so far. */
  cutOff(): void {
    if (this.#isFull) this.#response.req.socket.destroy();
  }

  /**
   * Frames chunks itself, in one write: the response would make three writes per chunk and finish
   * them in a later turn, which is most of a token's cost.
   */
  #put(text: string): void {
    const { socket, chunkedEncoding } = this.#response;
    // Headers go with the first piece; a pipelined response has no socket yet.
    if (!this.#begun || socket === null || !chunkedEncoding) {
      this.#begun = true;
      this.#response.write(text);
      return;
    }
    socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
  }

  /** Whether sending must wait for the reader. */
  get #isFull(): boolean {
    const { socket, writableNeedDrain } = this.#response;
    return writableNeedDrain || socket?.writableNeedDrain === true;
  }

  /** Checks the time only when the silence may be too long: a timer reset per token costs more. */
  #breakSilence(): void {
    if (this.closed) return;
    const { keepAliveMs } = this.#options;
    const silentMs = performance.now() - this.#sentMs;
    const isSilent = silentMs >= keepAliveMs;
    if (isSilent) this.keepAlive();
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
