import type { ServerResponse } from "node:http";

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

/**
 * Server-sent events on one response. Waits for slow readers, and knows when they are gone. While
 * there is nothing to send, comments keep clients and proxies from taking the silence for an end.
 */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #keepAlive: NodeJS.Timeout;

  /** Takes the response over; the caller must not write to it any more, and calls `end`. */
  constructor(response: ServerResponse, headers: Headers, keepAliveMs: number) {
    this.#response = response;
    this.#keepAlive = setInterval(() => this.comment("keep-alive"), keepAliveMs);
    response.once("close", () => clearInterval(this.#keepAlive));
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

  /** Sends each value as one event. Resolves when the reader has room for more, or is gone. */
  async send(values: readonly unknown[]): Promise<void> {
    if (values.length === 0 || this.closed) return;
    this.#keepAlive.refresh();
    const text = values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join("");
    if (!this.#response.write(text)) await this.#room();
  }

  /** Sends what clients skip. Nothing where the reader has not yet taken what was sent before. */
  comment(text: string): void {
    if (!this.closed && !this.#response.writableNeedDrain) this.#response.write(`: ${text}\n\n`);
  }

  /** The last event, and the end of the response. */
  end(): void {
    clearInterval(this.#keepAlive);
    if (!this.closed) this.#response.end("data: [DONE]\n\n");
  }

  #room(): Promise<void> {
    const response = this.#response;
    return new Promise((resolve) => {
      const done = () => {
        response.off("drain", done).off("close", done);
        resolve();
      };
      response.on("drain", done).on("close", done);
    });
  }
}
