/** Where requests wait while every worker that may take them is full. */
import { type Clock, EngineError, type Timer } from "#base";
import {
  type Dispatcher,
  type DispatchRequest,
  type Refusal,
  RequestQueue,
  type ReservationWatcher,
  type WaitingAhead,
} from "#cluster/routing";
import { priorityClass, type QueueMetrics } from "./queue-metrics.ts";
import { deadlineError } from "./relay-answers.ts";

export interface WaitingRoomOptions {
  readonly dispatcher: Pick<Dispatcher, "isFull" | "awaited" | "laneOf" | "tokensToCompute"> &
    Partial<Pick<Dispatcher, "foresee" | "mayFill">>;
  readonly clock: Clock;
  readonly timer: Timer;
  readonly metrics: QueueMetrics;
  readonly queueRequestsMax: number;
  readonly queueKeyRequestsMax: number;
  readonly queueBytesMax: number;
  readonly queueTimeoutMs: number;
  /** How long workers that failed are left alone: they are waited for twice as long. */
  readonly breakerOpenMs: number;
  /** Workers that are not known yet are waited for so long. */
  readonly startingMs: number;
}

/** A request that wants a worker. */
export interface Comer {
  readonly query: DispatchRequest;
  readonly priority: number;
  /** Its API key; "": it has none. */
  readonly key: string;
  readonly bytes: number;
  /** Books it at a worker at once: the next in line must see it. */
  readonly go: () => void;
}

/** A request that waits. */
export interface Waiting {
  /** Resolves behind `go`, or after `leave`. Rejects with what the client is to be told. */
  readonly over: Promise<void>;
  /** The client is gone. */
  leave(): void;
}

/** Loads shrink with time, and breakers close: looked at this often while requests wait. */
const LOOK_MS = 20;
/** Once until they are tried, once until those who try them are answered. */
const OPENINGS = 2;
/** What a key may send in its turn. */
const QUANTUM_TOKENS = 2048;

/**
 * No request waits while a worker has room. Behind those that wait, all wait: here order, fairness
 * and leaving cost nothing, and a request goes to the worker that is the first to have room.
 */
export class WaitingRoom {
  readonly #options: WaitingRoomOptions;
  readonly #queue: RequestQueue;
  /** Of those that wait, without what fills what is free. */
  #urgentCount = 0;
  #aheadTokens = 0;
  #isWoken = false;
  #stopTimer: (() => void) | null = null;

  constructor(options: WaitingRoomOptions) {
    this.#options = options;
    this.#queue = new RequestQueue({
      ...{ clock: options.clock, timer: options.timer, quantumTokens: QUANTUM_TOKENS },
      requestsMax: options.queueRequestsMax,
      keyRequestsMax: options.queueKeyRequestsMax,
      bytesMax: options.queueBytesMax,
      waitMsMax: options.queueTimeoutMs,
    });
  }

  get count(): number {
    return this.#queue.count;
  }

  get bytes(): number {
    return this.#queue.bytes;
  }

  /** Null: it may go at once. */
  enter(comer: Comer): Waiting | null {
    const { dispatcher } = this.#options;
    const isBatch = comer.query.isBatch === true;
    // Work that fills what is free has no place in the line of others.
    const isEmpty = isBatch ? this.#queue.count === 0 : this.#urgentCount === 0;
    if (isEmpty && this.#mayGo(comer.query)) return null;
    const missed = isBatch ? null : (dispatcher.foresee?.(comer.query, this.#ahead()) ?? null);
    if (missed !== null) throw deadlineError(missed);
    const waiting = this.#queueUp(comer);
    this.#admit(); // others may wait for other workers, or be less urgent
    return waiting;
  }

  /** Told of requests at workers: behind each, a worker may have room. */
  readonly watcher: ReservationWatcher = {
    firstToken: () => this.#wake(),
    end: () => this.#wake(),
  };

  #wake(): void {
    if (this.#queue.count === 0 || this.#isWoken) return;
    this.#isWoken = true;
    // Not within the end of another request: its books are being written.
    queueMicrotask(() => {
      this.#isWoken = false;
      this.#admit();
    });
  }

  /** Sends all away, and all that come. */
  close(): void {
    this.#queue.close();
    this.#watch();
  }

  #ahead(): WaitingAhead {
    const [requests, tokens] = [this.#urgentCount, this.#aheadTokens];
    return { requests, tokens, paceMs: this.#queue.paceMs };
  }

  #mayGo(query: DispatchRequest): boolean {
    const { dispatcher } = this.#options;
    if (dispatcher.isFull(query)) return false;
    return query.isBatch !== true || (dispatcher.mayFill?.(query) ?? true);
  }

  #queueUp({ query, key, priority, bytes, go }: Comer): Waiting {
    const { dispatcher, clock, metrics } = this.#options;
    const priorityName = priorityClass(priority);
    const sinceMs = clock.nowMs();
    const uncachedTokens = dispatcher.tokensToCompute(query);
    const stopCounting = query.isBatch === true ? () => {} : this.#countUrgent(uncachedTokens);
    let leave = () => {};
    const over = new Promise<void>((resolve, reject) => {
      const refuse = (refusal: Refusal) => {
        stopCounting();
        metrics.refused(priorityName, refusal.reason);
        reject(this.#errorOf(refusal));
      };
      const leaves = this.#queue.offer({
        ...{ key, priority, bytes, lane: dispatcher.laneOf(query), refuse },
        uncachedTokens,
        hasRoom: () => this.#mayGo(query) || this.#isHopeless(query, sinceMs),
        admit: () => {
          stopCounting();
          metrics.admitted(priorityName, clock.nowMs() - sinceMs);
          try {
            go();
            resolve();
          } catch (error) {
            reject(error); // it is one request's: the next is admitted all the same
          }
        },
      });
      if (typeof leaves !== "function") return refuse(leaves);
      leave = () => {
        leaves();
        stopCounting();
        this.#watch();
        resolve();
      };
    });
    return { over, leave };
  }

  /** Returns what ends it, once. */
  #countUrgent(tokens: number): () => void {
    this.#urgentCount++;
    this.#aheadTokens += tokens;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#urgentCount--;
      this.#aheadTokens -= tokens;
    };
  }

  /**
   * Workers that failed were waited for until each was tried again, and those that are not known
   * for as long as they need to be heard of: it may go, and be told.
   */
  #isHopeless(query: DispatchRequest, sinceMs: number): boolean {
    const { dispatcher, clock, breakerOpenMs, startingMs } = this.#options;
    const awaited = dispatcher.awaited(query);
    const patienceMs = awaited === "breakers" ? breakerOpenMs * OPENINGS : startingMs;
    return awaited !== null && clock.nowMs() - sinceMs >= patienceMs;
  }

  #admit(): void {
    while (this.#queue.admitNext());
    this.#watch();
  }

  /** Looks again soon, as long as requests wait. */
  #watch(): void {
    if (this.#queue.count === 0) {
      this.#stopTimer?.();
      this.#stopTimer = null;
    } else {
      this.#stopTimer ??= this.#options.timer.after(LOOK_MS, () => {
        this.#stopTimer = null;
        this.#admit();
      });
    }
  }

  #errorOf({ reason, retryAfterS }: Refusal): EngineError {
    const { queueRequestsMax, queueKeyRequestsMax, queueTimeoutMs } = this.#options;
    const retryAfterSeconds = retryAfterS;
    switch (reason) {
      case "key-full":
        return new EngineError(
          "QUEUE_FULL",
          `Cannot accept request: at most ${queueKeyRequestsMax} of an API key may wait; ` +
            `try again in ${retryAfterS} s`,
          { retryAfterSeconds },
        );
      case "full":
        return new EngineError(
          "OVERLOADED",
          `Cannot accept request: all workers are busy, and ${this.count} of at most ` +
            `${queueRequestsMax} wait (${this.bytes} bytes); try again in ${retryAfterS} s`,
          { retryAfterSeconds },
        );
      case "waited":
        return new EngineError(
          "OVERLOADED",
          `Cannot complete request: no worker had room within ${queueTimeoutMs} ms; ` +
            `try again in ${retryAfterS} s`,
          { retryAfterSeconds },
        );
      case "closed":
        return new EngineError(
          "SHUTTING_DOWN",
          "Cannot accept request: the router is shutting down; try again later or elsewhere",
        );
    }
  }
}
