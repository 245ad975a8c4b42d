/** Readers of streams of workers, which relay bytes and parse no event but the last. */
import { isPlainObject } from "#base";
import { OLLAMA, OPENAI } from "#server";
import type { RequestKind } from "./generation-request.ts";

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
  /** Of an answer that is a stream. */
  readonly mediaType: string;
  /** Whether text that may be relayed has an event, and not comments alone. */
  hasEvents(text: string): boolean;
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
/** Of OpenAI's streams, and of all that have events. */
export const EVENTS_TYPE = mediaTypeIn(OPENAI.stream.contentType);
const LINES_TYPE = mediaTypeIn(OLLAMA.stream.contentType);
/** Other streams end with one of these events. */
const LAST_EVENTS = {
  messages: /^event: (?:message_stop|error)\r?$/m,
  responses: /^event: (?:response\.(?:completed|incomplete|failed)|error)\r?$/m,
} as const;
/** Also within arguments of a call, so that such a line is parsed. */
const OLLAMA_END = /"done": ?true|^\{"error":/m;

/** The stream of a server without markers: whole lines are relayed as they are. */
export class LineReader implements StreamReader {
  readonly failure = null;
  broken: string | null = null;
  readonly #form: LineForm;
  #held = "";
  #done = false;

  constructor(form: LineForm = "openai") {
    this.#form = form;
  }

  get isComplete(): boolean {
    return this.#done;
  }

  get mediaType(): string {
    return this.#form === "ollama" ? LINES_TYPE : EVENTS_TYPE;
  }

  hasEvents(text: string): boolean {
    return this.#form === "ollama" ? linesIn(text) > 0 : hasEvents(text);
  }

  get plainForm(): PlainForm | null {
    // A native relay looks for OpenAI's end alone.
    return this.#form === "openai" && this.#held === "" && !this.#done ? LINES : null;
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
    const done = this.#endsIn(text);
    this.#done ||= done;
    const events = this.#form === "ollama" ? linesIn(text) : eventsIn(text);
    return { text, tokens: events - (done ? 1 : 0) };
  }

  #endsIn(text: string): boolean {
    if (this.#form === "openai") return text.includes(DONE);
    if (this.#form === "ollama") return OLLAMA_END.test(text) && text.split("\n").some(isLastLine);
    return LAST_EVENTS[this.#form].test(text);
  }
}

/** Whether a line of Ollama's says that none follows; `latin1`: quotes and names are ASCII. */
function isLastLine(latin1: string): boolean {
  if (!OLLAMA_END.test(latin1)) return false;
  try {
    const line: unknown = JSON.parse(latin1);
    return isPlainObject(line) && (line.done === true || typeof line.error === "string");
  } catch {
    return false; // no JSON: whatever it is, its client is told
  }
}

/** By which words a stream ends. */
export type LineForm = "openai" | "ollama" | keyof typeof LAST_EVENTS;

/** A reader for the answer to a request of this kind. */
export function lineReader(kind: RequestKind): LineReader {
  const isOwn = kind === "messages" || kind === "responses" || kind === "ollama";
  return new LineReader(isOwn ? kind : "openai");
}

function mediaTypeIn(contentType: string): string {
  return contentType.split(";", 1)[0] ?? contentType;
}

const LINES: PlainForm = { choices: 0, live: 0n };

const NOTHING: StreamPiece = { text: "", tokens: 0 };

/** Of event streams, which may have comments. */
export function hasEvents(text: string): boolean {
  return text.startsWith("data:") || text.includes("\ndata:");
}

function eventsIn(text: string): number {
  let count = 0;
  const first = text.startsWith("data:") ? 0 : text.indexOf("\ndata:");
  for (let at = first; at >= 0; at = text.indexOf("\ndata:", at + 5)) count++;
  return count;
}

/** Lines that are not empty. */
function linesIn(text: string): number {
  let count = 0;
  for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", end + 1)) {
    if (end > 0 && text[end - 1] !== "\n") count++;
  }
  return count;
}
