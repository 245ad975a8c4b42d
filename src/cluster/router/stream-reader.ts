/** Readers of event streams of workers, which relay bytes and parse no event. */

/** What a piece of a stream contained. */
export interface StreamPiece {
  /** What may be relayed, in Latin-1. */
  readonly text: string;
  /** New tokens; of servers that do not say, the number of events. */
  readonly tokens: number;
}

/** How whole events of a stream can be told apart without its reader. */
export interface PlainForm {
  /** Of a stream with markers; 0: whole lines, no markers. */
  readonly choices: number;
  /** A bit for each choice that has not ended. */
  readonly live: bigint;
}

/** One worker's stream, or those of several workers that go on with each other's. */
export interface StreamReader {
  /** What may be relayed, up to where the stream loses its form (`broken`). */
  read(bytes: Buffer): StreamPiece;
  /** Why nothing behind the last piece can be relayed; null: it can. */
  readonly broken: string | null;
  /** The worker's own error event, as JSON in Latin-1, where it was held back; null: none. */
  readonly failure: string | null;
  /** The stream's end has come. */
  readonly isComplete: boolean;
  /** What a native thread may relay now; null: something is held, or the rest is no plain one. */
  readonly plainForm: PlainForm | null;
  /** Tokens that were relayed elsewhere, by choice, with commas between their ids. */
  addRelayed(ids: readonly string[]): void;
}

const LINE_BYTES_MAX = 16 * 2 ** 20;
const DONE = "data: [DONE]";
/** The last event of a response; also where a server ends it with `[DONE]` as well. */
const RESPONSE_OVER = /^event: (?:response\.(?:completed|incomplete|failed)|error)\r?$/m;

/** The stream of a server without markers: whole lines are relayed as they are. */
export class LineReader implements StreamReader {
  readonly failure = null;
  broken: string | null = null;
  readonly #isResponse: boolean;
  #held = "";
  #done = false;

  /** `isResponse`: the stream has events of /v1/responses. */
  constructor(isResponse = false) {
    this.#isResponse = isResponse;
  }

  get isComplete(): boolean {
    return this.#done;
  }

  get plainForm(): PlainForm | null {
    // A native thread knows no other end than `[DONE]`.
    return this.#held === "" && !this.#done && !this.#isResponse ? LINES : null;
  }

  addRelayed(): void {
    // Another worker cannot go on from them: which ones they were does not matter.
  }

  read(bytes: Buffer): StreamPiece {
    const piece = bytes.toString("latin1");
    const end = piece.lastIndexOf("\n") + 1;
    if (end === 0) {
      this.#held += piece;
      if (this.#held.length > LINE_BYTES_MAX) {
        this.#held = "";
        this.broken = "an event without end";
      }
      return NOTHING;
    }
    const text = end === piece.length ? this.#held + piece : this.#held + piece.slice(0, end);
    this.#held = end === piece.length ? "" : piece.slice(end);
    const done = text.includes(DONE);
    this.#done ||= done || (this.#isResponse && RESPONSE_OVER.test(text));
    return { text, tokens: eventsIn(text) - (done ? 1 : 0) };
  }
}

const LINES: PlainForm = { choices: 0, live: 0n };

const NOTHING: StreamPiece = { text: "", tokens: 0 };

function eventsIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf("data:"); at >= 0; at = text.indexOf("\ndata:", at + 5)) count++;
  return count;
}
