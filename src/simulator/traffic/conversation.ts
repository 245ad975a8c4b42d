/** A conversation that grows: each request has all that was said before. */
import { type TrafficPiece, type TrafficRequest, tokensIn } from "./traffic.ts";

/**
 * Time that a planned answer takes: to the first token, and for each one. Only plans follow it;
 * a client that waits for answers sends a request `thinkMs` behind the real one.
 */
const PLANNED_FIRST_MS = 500;
const PLANNED_TOKEN_MS = 10;

/** Makes the requests of one conversation, in order. */
export class Conversation {
  readonly session: string;
  readonly #pieces: TrafficPiece[] = [];
  #nowMs: number;
  #turns = 0;
  #last: string | null = null;

  constructor(session: string, startMs: number) {
    this.session = session;
    this.#nowMs = startMs;
  }

  /** When the last planned answer is complete. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** The request that was asked last; null: none. */
  get last(): string | null {
    return this.#last;
  }

  get promptTokens(): number {
    return tokensIn(this.#pieces);
  }

  say(...pieces: readonly TrafficPiece[]): void {
    this.#pieces.push(...pieces);
  }

  /** Forgets all that was said. */
  clear(): void {
    this.#pieces.length = 0;
  }

  /** Asks with all that was said; the answer is said, too. */
  ask({ outputTokens, thinkMs }: { outputTokens: number; thinkMs: number }): TrafficRequest {
    const pieces = [...this.#pieces];
    const atMs = this.#nowMs + (this.#last === null ? 0 : thinkMs);
    const request = {
      id: `${this.session}-${this.#turns++}`,
      ...{ atMs, after: this.#last, thinkMs: this.#last === null ? 0 : thinkMs },
      ...{ session: this.session, pieces, promptTokens: tokensIn(pieces), outputTokens },
    };
    this.#nowMs = atMs + PLANNED_FIRST_MS + outputTokens * PLANNED_TOKEN_MS;
    this.#last = request.id;
    this.say({ role: "assistant", name: null, tokens: outputTokens, answerOf: request.id });
    return request;
  }

  /** Waits for another conversation's last answer: the next request follows it. */
  await(other: Conversation): void {
    this.#nowMs = Math.max(this.#nowMs, other.nowMs);
    this.#last = other.last ?? this.#last;
  }
}
