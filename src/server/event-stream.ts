import type { ServerResponse } from "node:http";

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

/** One event whose data is the value's JSON. */
export function eventText(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

/**
 * Server-sent events on one response. Waits for slow readers, and knows when they are gone. While
 * there is nothing to send, comments keep clients and proxies from taking the silence for an end.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #keepAliveMs: number;
  #keepAlive: NodeJS.Timeout;
  #sentMs = performance.now();
  /** The response has sent its headers: what follows is bytes of chunks. */
  #begun = false;

  /** Takes the response over; the caller must not write to it any more, and calls `end`. */
  constructor(response: ServerResponse, headers: Headers, keepAliveMs: number) {
    this.#response = response;
    this.#keepAliveMs = keepAliveMs;
    this.#keepAlive = setTimeout(() => this.#breakSilence(), keepAliveMs);
    response.once("close", () => clearTimeout(this.#keepAlive));
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined) response.setHeader(name, value);
    }
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no", // nginx would collect the stream otherwise
    });
    response.socket?.setNoDelay(true);
  }

  get closed(): boolean {
    return this.#response.destroyed || this.#response.writableEnded;
  }

  /**
   * Sends text that is whole events. Null: there is room for more; else what resolves when there
   * is, or when the reader is gone.
   */
  send(events: string): Promise<void> | null {
    if (this.closed || events === "") return null;
    this.#sentMs = performance.now();
    return this.#put(events) ? null : this.#room();
  }

  /** Sends what clients skip. Nothing where the reader has not yet taken what was sent before. */
  comment(text: string): void {
    const { socket, writableNeedDrain } = this.#response;
    const full = writableNeedDrain || socket?.writableNeedDrain === true;
    if (!this.closed && !full) this.#put(`: ${text}\n\n`);
  }

  /** The last event, and the end of the response. */
  end(): void {
    this.#finish("data: [DONE]\n\n");
  }

  /** Ends the response without a last event. */
  close(): void {
    this.#finish("");
  }

  /**
   * False where the reader should be waited for. Frames chunks itself, in one piece: the response
   * would write three for each, and end them in a later turn, which is most of a token's cost.
   */
  #put(text: string): boolean {
    const { socket, chunkedEncoding } = this.#response;
    // Headers go with the first piece; a response that waits behind another one has no socket yet.
    if (!this.#begun || socket === null || !chunkedEncoding) {
      this.#begun = true;
      return this.#response.write(text);
    }
    return socket.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`);
  }

  /** Looks at the time only when a silence may be over: a timer moved by every token costs more. */
  #breakSilence(): void {
    const silentMs = performance.now() - this.#sentMs;
    const isSilent = silentMs >= this.#keepAliveMs;
    if (isSilent) this.comment("keep-alive");
    const nextMs = isSilent ? this.#keepAliveMs : this.#keepAliveMs - silentMs;
    this.#keepAlive = setTimeout(() => this.#breakSilence(), nextMs);
  }

  #finish(text: string): void {
    clearTimeout(this.#keepAlive);
    if (!this.closed) this.#response.end(text);
  }

  #room(): Promise<void> {
    const response = this.#response;
    const { socket } = response;
    return new Promise((resolve) => {
      const done = () => {
        response.off("drain", done).off("close", done);
        socket?.off("drain", done);
        resolve();
      };
      response.on("drain", done).on("close", done);
      socket?.on("drain", done);
    });
  }
}
