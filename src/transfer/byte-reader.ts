import type { Socket } from "node:net";

/** Reads a connection in pieces of known length. */
export class ByteReader {
  readonly #socket: Socket;
  #parts: Buffer[] = [];
  #bytes = 0;
  #wanted: { readonly count: number; readonly resolve: (bytes: Buffer | null) => void } | null =
    null;
  #ended = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (part) => {
      this.#parts.push(part);
      this.#bytes += part.length;
      this.#give();
      // What was not asked for yet stays with the system, so that it bounds who sends it.
      if (this.#wanted === null) socket.pause();
    });
    const end = () => {
      this.#ended = true;
      this.#give();
    };
    socket.on("end", end).on("close", end).on("error", end);
    socket.pause();
  }

  /** The next `count` bytes; null: the connection ended before. One call at a time. */
  async take(count: number): Promise<Buffer | null> {
    return await new Promise((resolve) => {
      this.#wanted = { count, resolve };
      this.#socket.resume();
      this.#give();
    });
  }

  #give(): void {
    const wanted = this.#wanted;
    if (wanted === null) return;
    if (this.#bytes < wanted.count) {
      if (!this.#ended) return;
      this.#wanted = null;
      wanted.resolve(null);
      return;
    }
    this.#wanted = null;
    const all = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts);
    const rest = all?.subarray(wanted.count) ?? Buffer.alloc(0);
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#bytes = rest.length;
    wanted.resolve(all?.subarray(0, wanted.count) ?? null);
  }
}
