import type { Clock } from "#base";
import type { SharedLoad, WorkerBooks, WorkerLoad, WorkerSpeeds } from "#cluster/protocol";
import { type LoadClaim, type LoadObserver, Reservation } from "./reservation.ts";
import { WorkerAccount } from "./worker-account.ts";

/** How the books of load behave. */
export interface LoadBooksOptions {
  readonly clock: Clock;
  /** Told what requests took: measured speeds come from here. */
  readonly observer?: LoadObserver;
  /**
   * A reservation that was not touched for this long is released by `expire`: a net below the
   * router's own deadlines, which end every request earlier.
   */
  readonly silenceMsMax?: number;
}

const SILENCE_MS_MAX = 1_800_000;
/** A worker's report that is older says nothing any more. */
const REPORT_MS_MAX = 15_000;

/**
 * What the router handed to each worker and did not get back, corrected by what workers and the
 * shared books say of other routers' requests. Every reservation is released exactly once, in
 * whichever way its request ends.
 */
export class LoadBooks {
  readonly #clock: Clock;
  readonly #observer: LoadObserver | undefined;
  readonly #silenceMsMax: number;
  readonly #accounts = new Map<string, WorkerAccount>();
  readonly #open = new Set<Reservation>();
  #leaked = 0;

  constructor({ clock, observer, silenceMsMax = SILENCE_MS_MAX }: LoadBooksOptions) {
    this.#clock = clock;
    this.#observer = observer;
    this.#silenceMsMax = silenceMsMax;
  }

  /** Requests that have not ended. */
  get openCount(): number {
    return this.#open.size;
  }

  /** Reservations that `expire` had to release: a bug of their owner each. */
  get leakedCount(): number {
    return this.#leaked;
  }

  /** Books a request at once: the next choice sees it. */
  reserve(claim: LoadClaim): Reservation {
    const account = this.#accountOf(claim.workerId, claim.epoch);
    const reservation = new Reservation(claim, {
      account,
      clock: this.#clock,
      observer: this.#observer,
      onEnd: () => this.#open.delete(reservation),
    });
    this.#open.add(reservation);
    return reservation;
  }

  /** Load of a worker now; the prompt that it computes shrinks at its speed; null: not at all. */
  viewOf(workerId: string, speeds: WorkerSpeeds | null): WorkerBooks {
    const account = this.#accounts.get(workerId);
    if (account === undefined) return NOTHING;
    return account.view(this.#clock.nowMs(), speeds);
  }

  /** How much longer than its own prompt takes a request has waited there for its first token. */
  lateMsOf(workerId: string, speeds: WorkerSpeeds): number {
    return this.#accounts.get(workerId)?.lateMs(this.#clock.nowMs(), speeds) ?? 0;
  }

  /**
   * The worker refused a request, since it has as many as it takes. Believed for `ms`; returns how
   * many of this router's it has.
   */
  refused(workerId: string, ms: number): number {
    const account = this.#accounts.get(workerId);
    account?.refused(this.#clock.nowMs() + ms);
    return account?.view(this.#clock.nowMs(), null).requests ?? 0;
  }

  /** Requests that the worker takes at once, as far as it has said by refusing some. */
  takesMax(workerId: string): number {
    const account = this.#accounts.get(workerId);
    return account?.takesMax(this.#clock.nowMs()) ?? Number.POSITIVE_INFINITY;
  }

  /** A worker's word about itself: what exceeds this router's books is other routers'. */
  report(workerId: string, load: WorkerLoad, blocks: number): void {
    const account = this.#accounts.get(workerId) ?? this.#accountOf(workerId, null);
    account.report(load, blocks, this.#clock.nowMs() + REPORT_MS_MAX);
  }

  /** The shared books' word: all routers' load, this one's included. */
  shared(workerId: string, load: SharedLoad): void {
    const account = this.#accounts.get(workerId) ?? this.#accountOf(workerId, null);
    account.shared(load, this.#clock.nowMs() + REPORT_MS_MAX);
  }

  /** All that the worker held is gone; requests on it may still be ended, to no effect here. */
  left(workerId: string): void {
    this.#accounts.delete(workerId);
    for (const reservation of this.#open) {
      if (reservation.workerId === workerId) reservation.end("worker-left");
    }
  }

  /** Releases what was not touched for too long; returns how many there were. */
  expire(): number {
    const before = this.#clock.nowMs() - this.#silenceMsMax;
    let expired = 0;
    for (const reservation of this.#open) {
      if (reservation.touchedMs > before) continue;
      if (reservation.end("leaked")) expired++;
    }
    this.#leaked += expired;
    return expired;
  }

  /** An epoch that is not the account's begins a new one; null: whatever start it is. */
  #accountOf(workerId: string, epoch: string | null): WorkerAccount {
    const known = this.#accounts.get(workerId);
    if (known !== undefined && (known.epoch === epoch || known.epoch === null)) {
      known.epoch = epoch;
      return known;
    }
    const account = new WorkerAccount(epoch);
    this.#accounts.set(workerId, account);
    return account;
  }
}

const NOTHING: WorkerBooks = {
  requests: 0,
  uncachedTokens: 0,
  uncachedPairs: 0,
  heldBlocks: 0,
  decoding: 0,
};
