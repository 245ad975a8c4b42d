import type { ServerResponse } from "node:http";

type Headers = Readonly<Record<string, string | number | string[] | undefined>>;

/** Server-sent events on one response. Waits for slow readers, and knows when they are gone. */
export class EventStream {
  readonly #response: ServerResponse;

  /** Takes the response over; the caller must not write to it any more. */
  constructor(response: ServerResponse, headers: Headers) {
    this.#response = response;
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
    const text = values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join("");
    if (!this.#response.write(text)) await this.#room();
  }

  /** The last event, and the end of the response. */
  end(): void {
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
