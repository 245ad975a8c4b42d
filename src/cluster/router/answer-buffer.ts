/** Holds an answer until it is complete, so that another worker can still take over. */

/** Longer answers are passed on as they come: of these, only the beginning could be retried. */
const HELD_BYTES_MAX = 8 * 2 ** 20;

export interface AnswerOverflow {
  /** Called once, before the first `write`. */
  begin(): void;
  /** Bytes of the answer, in Latin-1. */
  write(latin1: string): void;
}

export class AnswerBuffer {
  readonly #overflow: AnswerOverflow;
  #parts: Buffer[] = [];
  #bytes = 0;
  #passedOn = false;

  constructor(overflow: AnswerOverflow) {
    this.#overflow = overflow;
  }

  /** The answer was too long; what came is with the client. */
  get passedOn(): boolean {
    return this.#passedOn;
  }

  /** Copies the bytes. */
  add(bytes: Buffer): void {
    if (!this.#passedOn) {
      this.#parts.push(Buffer.from(bytes));
      this.#bytes += bytes.length;
      if (this.#bytes <= HELD_BYTES_MAX) return;
      this.#passedOn = true;
      this.#overflow.begin();
      for (const part of this.#parts.splice(0)) this.#overflow.write(part.toString("latin1"));
      return;
    }
    this.#overflow.write(bytes.toString("latin1"));
  }

  /** The whole answer. */
  take(): Buffer {
    const [only] = this.#parts;
    if (only !== undefined && this.#parts.length === 1) return only;
    return Buffer.concat(this.#parts.splice(0), this.#bytes);
  }
}
