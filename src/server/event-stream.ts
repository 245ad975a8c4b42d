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
    if (values.length === 0) return;
    await this.write(values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join(""));
  }

  /** Sends events that are text already. Resolves as `send` does. */
  async write(events: string): Promise<void> {
    if (this.closed) return;
    this.#keepAlive.refresh();
    if (!this.#response.write(events)) await this.#room();
  }

  /** Sends what clients skip. Nothing where the reader has not yet taken what was sent before. */
  comment(text: string): void {
    if (!this.closed && !this.#response.writableNeedDrain) this.#response.write(`: ${text}\n\n`);
  }

  /** The last event, and the end of the response. */
  end(): void {
    this.#finish("data: [DONE]\n\n");
  }

  /** Ends the response without a last event. */
  close(): void {
    this.#finish("");
  }

  #finish(text: string): void {
    clearInterval(this.#keepAlive);
    if (!this.closed) this.#response.end(text);
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
