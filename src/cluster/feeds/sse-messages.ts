/** Server-sent events as messages (WHATWG, HTML 9.2), as far as our own servers write them. */
import { EngineError } from "#base";

/** One message of a stream. */
export interface SseMessage {
  /** Null where the message has none: the place in the stream is not to be resumed from. */
  readonly id: string | null;
  /** "message" where the server gave no name. */
  readonly event: string;
  readonly data: string;
}

/** Cuts text into messages; text without an end is kept up to a bound. */
export class SseMessages {
  readonly #lengthMax: number;
  /** The pieces of a message that has not ended. */
  #pieces: string[] = [];
  #length = 0;

  /** `lengthMax`: of one message. */
  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
  }

  /** The messages that end in this piece of text. Throws NETWORK for one that is too long. */
  push(text: string): SseMessage[] {
    const messages: SseMessage[] = [];
    let start = 0;
    for (;;) {
      const end = this.#endFrom(text, start);
      if (end < 0) break;
      const whole = this.#pieces.join("") + text.slice(start, end);
      this.#pieces = [];
      this.#length = 0;
      start = end;
      const message = parseMessage(whole);
      if (message !== null) messages.push(message);
    }
    this.#keep(text.slice(start));
    return messages;
  }

  #keep(text: string): void {
    if (text === "") return;
    this.#pieces.push(text);
    this.#length += text.length;
    if (this.#length <= this.#lengthMax) return;
    throw new EngineError(
      "NETWORK",
      `Cannot read KV events: a message has at most ${this.#lengthMax} characters, ` +
        `current value is ${this.#length} and more`,
    );
  }

  /** The place after the empty line that ends a message; -1: not in this text. */
  #endFrom(text: string, start: number): number {
    const isSplit =
      start === 0 && text.startsWith("\n") && this.#pieces.at(-1)?.endsWith("\n") === true;
    if (isSplit) return 1;
    const end = text.indexOf("\n\n", start);
    return end < 0 ? -1 : end + 2;
  }
}

/** Null for comments, which keep a connection alive. */
function parseMessage(block: string): SseMessage | null {
  let id: string | null = null;
  let event = "message";
  let data: string | null = null;
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    const field = line.slice(0, colon);
    if (field === "id") id = value;
    else if (field === "event") event = value;
    else if (field === "data") data = data === null ? value : `${data}\n${value}`;
  }
  return data === null ? null : { id, event, data };
}
