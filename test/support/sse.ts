/** Server-sent events of an answer that does not end by itself. */

export interface SseMessage {
  readonly id: string | null;
  /** "message" where the server gave no name. */
  readonly event: string;
  readonly data: string;
}

/** Reads one message after the other; `close` hangs up. */
export class SseReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = "";

  constructor(response: Response) {
    if (response.body === null) throw new Error("The answer has no body");
    this.#reader = response.body.getReader();
  }

  /** The next message, comments left out; null at the end. */
  async next(): Promise<SseMessage | null> {
    for (;;) {
      const end = this.#text.indexOf("\n\n");
      if (end >= 0) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        if (!block.startsWith(":")) return parseMessage(block);
        continue;
      }
      const { done, value } = await this.#reader.read();
      if (done) return null;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}

function parseMessage(block: string): SseMessage {
  const fields = new Map(
    block.split("\n").map((line) => {
      const colon = line.indexOf(": ");
      return [line.slice(0, colon), line.slice(colon + 2)] as const;
    }),
  );
  return {
    id: fields.get("id") ?? null,
    event: fields.get("event") ?? "message",
    data: fields.get("data") ?? "",
  };
}
