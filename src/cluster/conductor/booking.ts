import type { Accepted } from "./decision.ts";
import type { Instance } from "./instance-table.ts";
import type { PromptWork } from "./prefill-books.ts";

/** What a booking tells its conductor. */
export interface BookingKeeper {
  nowMs(): number;
  expectJoin(joinMs: number, tokens: number): void;
  unexpectJoin(joinMs: number, tokens: number): void;
  decodeBegan(atMs: number, tokens: number): void;
  /** `outputTokens` null: the request did not come to its end. */
  decodeEnded(beganMs: number, tokens: number, outputTokens: number | null): void;
  transferred(ms: number): void;
  firstToken(predictedMs: number, actualMs: number): void;
  /** Its prompt was computed as the first in its line. */
  computed(worked: PromptWork): void;
}

/** Where an accepted request runs. */
export interface BookedInstances {
  readonly prefill: Instance;
  readonly decode: Instance;
  /** Who sends the missing part of the prefix; null: no part moves. */
  readonly sender: Instance | null;
  /** Tokens of context in the middle of its output. */
  readonly contextTokens: number;
}

type Phase = "prefill" | "between" | "decode" | "ended";

/**
 * An accepted request's part of the books: `transferred`, `prefilled`, `decoding`, `ended`, in this
 * order. Each may be left out, and each counts once: after `ended` nothing of it is left.
 */
export class Booking {
  readonly decision: Accepted;
  readonly #keeper: BookingKeeper;
  readonly #at: BookedInstances;
  readonly #bookedMs: number;
  readonly #line: { readonly expectedMs: number };
  readonly #joinMs: number;
  #phase: Phase = "prefill";
  #moves: boolean;
  #handsOver = false;
  #beganMs = 0;

  constructor(decision: Accepted, at: BookedInstances, keeper: BookingKeeper) {
    this.decision = decision;
    this.#keeper = keeper;
    this.#at = at;
    this.#bookedMs = keeper.nowMs();
    this.#line = { expectedMs: decision.chosen.prefillMs };
    this.#joinMs = this.#bookedMs + decision.chosen.ttftMs;
    this.#moves = at.sender !== null;
    at.prefill.prefill.add(this.#line, this.#bookedMs);
    at.decode.decode.reserve(at.contextTokens);
    keeper.expectJoin(this.#joinMs, at.contextTokens);
    if (this.#moves) this.#countMove(1);
  }

  /** The missing part of the prefix came, or will not come. */
  transferred(isThere = true): void {
    if (!this.#moves) return;
    this.#moves = false;
    this.#countMove(-1);
    if (isThere) this.#keeper.transferred(this.#keeper.nowMs() - this.#bookedMs);
  }

  /**
   * Its prompt is computed: the first token is there, and the rest of its keys travels. `isSeen`:
   * off where that is taken to be so, as time says.
   */
  prefilled(isSeen = true): void {
    if (this.#phase !== "prefill") return;
    const nowMs = this.#keeper.nowMs();
    const worked = this.#endPrefill("between");
    if (isSeen) {
      this.#keeper.firstToken(this.decision.chosen.ttftMs, nowMs - this.#bookedMs);
      if (worked !== null) this.#keeper.computed(worked);
    }
    if (this.#at.prefill === this.#at.decode) return;
    this.#handsOver = true;
    this.#countHandOver(1);
  }

  /** When its first token was predicted to come. */
  get joinMs(): number {
    return this.#joinMs;
  }

  get isPrefilling(): boolean {
    return this.#phase === "prefill";
  }

  /** It joined the decode instance's batch. */
  decoding(): void {
    if (this.#phase === "prefill") this.prefilled();
    if (this.#phase !== "between") return;
    this.#endHandOver();
    this.#phase = "decode";
    this.#beganMs = this.#keeper.nowMs();
    this.#at.decode.decode.join(this.#at.contextTokens);
    this.#keeper.unexpectJoin(this.#joinMs, this.#at.contextTokens);
    this.#keeper.decodeBegan(this.#beganMs, this.#at.contextTokens);
  }

  /** `outputTokens`: of its whole output; null: it was rejected later, aborted, or failed. */
  ended(outputTokens: number | null = null): void {
    if (this.#phase === "ended") return;
    this.transferred(false);
    if (this.#phase === "prefill") this.#endPrefill("between");
    this.#endHandOver();
    const { decode, contextTokens } = this.#at;
    if (this.#phase === "decode") {
      decode.decode.leave(contextTokens);
      this.#keeper.decodeEnded(this.#beganMs, contextTokens, outputTokens);
    } else {
      decode.decode.cancel(contextTokens);
      this.#keeper.unexpectJoin(this.#joinMs, contextTokens);
    }
    this.#phase = "ended";
  }

  #endPrefill(next: Phase): PromptWork | null {
    this.#phase = next;
    return this.#at.prefill.prefill.remove(this.#line, this.#keeper.nowMs());
  }

  #endHandOver(): void {
    if (!this.#handsOver) return;
    this.#handsOver = false;
    this.#countHandOver(-1);
  }

  #countMove(by: 1 | -1): void {
    const { sender, prefill } = this.#at;
    if (sender !== null) sender.sends += by;
    prefill.receives += by;
  }

  #countHandOver(by: 1 | -1): void {
    this.#at.prefill.sends += by;
    this.#at.decode.receives += by;
  }
}
