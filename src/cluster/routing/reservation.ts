import type { Clock } from "#base";
import { pairsOf } from "./load.ts";
import type { Share, WorkerAccount } from "./worker-account.ts";

/** What a request is going to cost its worker. */
export interface LoadClaim {
  readonly workerId: string;
  /** Of the worker's start: what an earlier start held is gone. */
  readonly epoch: string;
  readonly promptTokens: number;
  /** Prompt tokens that the worker has to compute, as far as the router knows. */
  readonly uncachedTokens: number;
  readonly blockTokens: number;
  /** Its answer comes in one piece: when its first token came is not seen. Default: false. */
  readonly isUnseen?: boolean;
  /**
   * Keys and values of its prompt come from another worker: when its first token came says nothing
   * of this one's speed. Default: false.
   */
  readonly isFed?: boolean;
}

/** How a request ended; the books do not tell these apart, speeds and metrics do. */
export type ReservationEnd =
  | "ended"
  | "failed"
  | "cancelled"
  | "timed-out"
  | "moved"
  | "worker-left"
  | "leaked";

/** Told what requests took. */
export interface LoadObserver {
  /** A prompt was computed: `ms` after the worker could begin with it. */
  prefilled(workerId: string, work: PrefillWork, ms: number): void;
  /** A request got `tokens` tokens in `ms` beside others, with this load at their middle. */
  decoded(workerId: string, ms: number, tokens: number, decoding: DecodeLoad): void;
}

/** What was computed of a prompt. */
export interface PrefillWork {
  readonly tokens: number;
  /** Of these tokens with those before them, themselves included. */
  readonly pairs: number;
  /** It was begun when the one before it was done, or with that. Default: false. */
  readonly follows?: boolean;
}

/** What decoded together. */
export interface DecodeLoad {
  readonly requests: number;
  readonly heldBlocks: number;
  readonly blockTokens: number;
  /** Prompts that were computed in the same steps made them longer. */
  readonly undisturbed: boolean;
}

interface ReservationParts {
  readonly account: WorkerAccount;
  readonly clock: Clock;
  readonly observer: LoadObserver | undefined;
  readonly onEnd: () => void;
}

/** How times between the tokens of a request count. */
export interface GapWatch {
  /** Null: there is none. */
  readonly deadlineMs: number | null;
}

/** What else has to know how far a request is. */
export interface ReservationWatcher {
  /** Null or none: it counts no times between tokens. */
  readonly gaps?: GapWatch | null;
  firstToken?(): void;
  /**
   * So many more tokens have come, the first ones included, and the last one so long ago: in one
   * piece, or else the times between them are counted already.
   */
  tokens?(count: number, agoMs: number, gapsCounted: boolean): void;
  /** It holds more blocks than before. */
  grew?(heldBlocks: number): void;
  /** Called once, as the last. */
  end?(how: ReservationEnd, outputTokens: number): void;
}

/**
 * A request's load on its worker: `dispatched`, then `firstToken`, then `tokens` as they come, then
 * `end`. Each may be called at any time and any number of times; what no longer applies changes
 * nothing.
 */
export class Reservation {
  readonly workerId: string;
  readonly epoch: string;
  readonly promptTokens: number;
  /** As booked. */
  readonly uncachedTokens: number;
  readonly #blockTokens: number;
  readonly #account: WorkerAccount;
  readonly #clock: Clock;
  readonly #observer: LoadObserver | undefined;
  readonly #onEnd: () => void;
  readonly #share: Share;
  readonly #watchers: ReservationWatcher[] = [];
  readonly #isFed: boolean;
  #phase: "dispatched" | "decoding" | "over" = "dispatched";
  #outputTokens = 0;
  #touchedMs: number;
  /** Of the last observed stretch of tokens. */
  #markMs = 0;
  #markTokens = 0;

  constructor(claim: LoadClaim, { account, clock, observer, onEnd }: ReservationParts) {
    this.workerId = claim.workerId;
    this.epoch = claim.epoch;
    this.promptTokens = claim.promptTokens;
    this.uncachedTokens = claim.uncachedTokens;
    this.#blockTokens = claim.blockTokens;
    this.#isFed = claim.isFed ?? false;
    this.#account = account;
    this.#clock = clock;
    this.#observer = observer;
    this.#onEnd = onEnd;
    this.#touchedMs = clock.nowMs();
    this.#share = {
      uncachedTokens: claim.uncachedTokens,
      uncachedPairs: pairsOf(claim.promptTokens, claim.uncachedTokens),
      heldBlocks: this.#blocksOf(claim.promptTokens),
      headSinceMs: null,
      follows: false,
      sinceMs: this.#touchedMs,
      isUnseen: claim.isUnseen ?? false,
    };
    account.add(this.#share, this.#touchedMs);
  }

  /** When something was last heard of the request. */
  get touchedMs(): number {
    return this.#touchedMs;
  }

  get phase(): "dispatched" | "decoding" | "over" {
    return this.#phase;
  }

  get outputTokens(): number {
    return this.#outputTokens;
  }

  /** Blocks that the request is counted with now. */
  get heldBlocks(): number {
    return this.#share.heldBlocks;
  }

  /** Adds one that is told from now on. */
  watch(watcher: ReservationWatcher): void {
    this.#watchers.push(watcher);
  }

  /** How times between tokens count; null: they do not. */
  get gaps(): GapWatch | null {
    for (const { gaps = null } of this.#watchers) if (gaps !== null) return gaps;
    return null;
  }

  /** The prompt is computed. */
  firstToken(): void {
    if (this.#phase !== "dispatched") return;
    this.#phase = "decoding";
    const nowMs = this.#touch();
    const { headSinceMs, uncachedTokens: tokens, uncachedPairs: pairs, follows } = this.#share;
    if (headSinceMs !== null && !this.#isFed) {
      this.#observer?.prefilled(this.workerId, { tokens, pairs, follows }, nowMs - headSinceMs);
    }
    this.#account.stopWaiting(this.#share, nowMs);
    this.#markMs = nowMs;
    this.#markTokens = this.#outputTokens;
    for (const watcher of this.#watchers) watcher.firstToken?.();
  }

  /** As for watchers. */
  tokens(count: number, agoMs = 0, gapsCounted = false): void {
    if (this.#phase === "over" || !(count > 0)) return;
    this.firstToken();
    this.#outputTokens += count;
    const nowMs = this.#touch();
    for (const watcher of this.#watchers) watcher.tokens?.(count, agoMs, gapsCounted);
    const before = this.#share.heldBlocks;
    this.#account.grow(this.#share, this.#blocksOf(this.promptTokens + this.#outputTokens));
    if (this.#share.heldBlocks !== before) {
      for (const watcher of this.#watchers) watcher.grew?.(this.#share.heldBlocks);
    }
    this.#observeDecode(nowMs - agoMs);
  }

  /** Nothing new, but the request goes on. */
  touch(): void {
    if (this.#phase !== "over") this.#touch();
  }

  /** Releases all; false where that was done before. */
  end(how: ReservationEnd): boolean {
    if (this.#phase === "over") return false;
    this.#phase = "over";
    this.#account.remove(this.#share, this.#touch());
    this.#onEnd();
    for (const watcher of this.#watchers) watcher.end?.(how, this.#outputTokens);
    return true;
  }

  /** Stretches of some tokens: single ones come in the packets of the network. */
  #observeDecode(nowMs: number): void {
    const tokens = this.#outputTokens - this.#markTokens;
    if (tokens < STRETCH_TOKENS) return;
    const books = this.#account.view(nowMs, null);
    this.#observer?.decoded(this.workerId, nowMs - this.#markMs, tokens, {
      requests: books.decoding,
      heldBlocks: books.heldBlocks,
      blockTokens: this.#blockTokens,
      undisturbed: this.#account.undisturbedSince(this.#markMs),
    });
    this.#markMs = nowMs;
    this.#markTokens = this.#outputTokens;
  }

  #blocksOf(tokens: number): number {
    return Math.ceil(tokens / Math.max(this.#blockTokens, 1));
  }

  #touch(): number {
    this.#touchedMs = this.#clock.nowMs();
    return this.#touchedMs;
  }
}

const STRETCH_TOKENS = 16;
