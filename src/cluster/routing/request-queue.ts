import type { Clock, Timer } from "#base";
import { QueueLane } from "./queue-lane.ts";

/** A request that waits for a worker. */
export interface QueuedRequest {
  /** Requests of one API key share its turns; clients without one share "". */
  readonly key: string;
  /** Smaller ones go first, always. */
  readonly priority: number;
  /** Tokens that are likely to be computed for it: what it costs its key. */
  readonly uncachedTokens: number;
  /** Bytes of memory that it holds while it waits. Default: 0. */
  readonly bytes?: number;
  /** Those of one lane wait for the same workers. Default: "". */
  readonly lane?: string;
  /** Whether a worker of its lane has room now. Default: always. */
  readonly hasRoom?: () => boolean;
  /** It goes on to a worker now. */
  readonly admit: () => void;
  /** It is not going to be served. */
  readonly refuse: (refusal: Refusal) => void;
}

/** Why a request is not served, as an answer to its client. */
export interface Refusal {
  /** 429: its own key has too much here; 503: the fleet has. */
  readonly status: 429 | 503;
  /** Value of `Retry-After`, in whole seconds. */
  readonly retryAfterS: number;
  /** `closed`: the router stops. */
  readonly reason: "key-full" | "full" | "waited" | "closed";
}

/** Bounds of the queue. */
export interface RequestQueueOptions {
  readonly clock: Clock;
  readonly timer: Timer;
  /** Most waiting requests, of all keys and of one. */
  readonly requestsMax: number;
  readonly keyRequestsMax: number;
  /** Most bytes of all of them. Default: without end. */
  readonly bytesMax?: number;
  /** Longest wait. */
  readonly waitMsMax: number;
  /** What a key may send in its turn before the next has one. Default: 8192 tokens. */
  readonly quantumTokens?: number;
}

const QUANTUM_TOKENS = 8192;
const RETRY_S_MIN = 1;
const RETRY_S_MAX = 120;
/** Gaps between admissions: the mean is over about so many. */
const GAPS = 32;

interface Waiting {
  readonly key: string;
  readonly cost: number;
  readonly priority: number;
  readonly bytes: number;
  readonly lane: string;
  readonly request: QueuedRequest;
  readonly stopTimer: () => void;
}

/**
 * Requests that no worker takes yet: strict priorities, and within one fair between API keys by
 * tokens to compute. Those that wait for other workers delay none of these. Bounded in number,
 * bytes and time.
 */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  /** In the order of their turns among equal priorities. */
  readonly #lanes = new Map<string, QueueLane<Waiting>>();
  readonly #keyCounts = new Map<string, number>();
  #count = 0;
  #bytes = 0;
  #isClosed = false;
  #lastAdmittedMs: number | null = null;
  #gapMs = 0;
  #gaps = 0;

  constructor(options: RequestQueueOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#count;
  }

  /** Bytes of all that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Measured time between two that went while others waited; 0: not measured. */
  get paceMs(): number {
    return this.#gapMs;
  }

  /** Queues a request. Returns a function that takes it out again, or why it may not wait. */
  offer(request: QueuedRequest): (() => void) | Refusal {
    const { key, priority, uncachedTokens, lane = "", bytes = 0 } = request;
    const { requestsMax, keyRequestsMax, bytesMax, timer, waitMsMax } = this.#options;
    if (this.#isClosed) return this.#refusal("closed");
    if ((this.#keyCounts.get(key) ?? 0) >= keyRequestsMax) return this.#refusal("key-full");
    const isFull = this.#count >= requestsMax || this.#bytes + bytes > (bytesMax ?? Infinity);
    if (isFull) return this.#refusal("full");
    const stopTimer = timer.after(waitMsMax, () => {
      if (this.#remove(waiting)) request.refuse(this.#refusal("waited"));
    });
    const cost = uncachedTokens;
    const waiting: Waiting = { key, priority, cost, bytes, lane, request, stopTimer };
    (this.#lanes.get(lane) ?? this.#newLane(lane)).add(waiting);
    this.#countIn(waiting, 1);
    return () => this.#remove(waiting);
  }

  /**
   * Admits the next request whose lane has room; false: there is none. Called whenever a worker may
   * have room.
   */
  admitNext(): boolean {
    for (const [name, lane] of this.#inOrder()) {
      const sample = lane.first();
      if (sample === null || sample.request.hasRoom?.() === false) continue;
      const waiting = lane.take();
      if (waiting === null) continue;
      this.#lanes.delete(name);
      if (!lane.isEmpty) this.#lanes.set(name, lane); // behind the others
      this.#leaves(waiting);
      this.#measureGap();
      waiting.request.admit();
      return true;
    }
    return false;
  }

  /** Refuses all that wait, and all that come. */
  close(): void {
    this.#isClosed = true;
    const lanes = [...this.#lanes.values()];
    this.#lanes.clear();
    for (const lane of lanes) {
      for (let waiting = lane.take(); waiting !== null; waiting = lane.take()) {
        this.#leaves(waiting);
        waiting.request.refuse(this.#refusal("closed"));
      }
    }
  }

  #inOrder(): readonly [string, QueueLane<Waiting>][] {
    const lanes = [...this.#lanes];
    if (lanes.length === 1) return lanes;
    return lanes.sort(([, a], [, b]) => compare(a.firstPriority, b.firstPriority));
  }

  #newLane(name: string): QueueLane<Waiting> {
    const lane = new QueueLane<Waiting>(this.#options.quantumTokens ?? QUANTUM_TOKENS);
    this.#lanes.set(name, lane);
    return lane;
  }

  #remove(waiting: Waiting): boolean {
    const lane = this.#lanes.get(waiting.lane);
    if (lane === undefined || !lane.remove(waiting)) return false;
    if (lane.isEmpty) this.#lanes.delete(waiting.lane);
    this.#leaves(waiting);
    return true;
  }

  #leaves(waiting: Waiting): void {
    waiting.stopTimer();
    this.#countIn(waiting, -1);
  }

  #countIn({ key, bytes }: Waiting, by: 1 | -1): void {
    this.#count += by;
    this.#bytes += by * bytes;
    const count = (this.#keyCounts.get(key) ?? 0) + by;
    if (count > 0) this.#keyCounts.set(key, count);
    else this.#keyCounts.delete(key);
  }

  /** Only while requests wait: the gap before that says how seldom they came. */
  #measureGap(): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#lastAdmittedMs !== null) {
      this.#gaps = Math.min(this.#gaps + 1, GAPS);
      this.#gapMs += (nowMs - this.#lastAdmittedMs - this.#gapMs) / this.#gaps;
    }
    this.#lastAdmittedMs = this.#count > 0 ? nowMs : null;
  }

  /** Who comes back when those before it have gone finds a place. */
  #refusal(reason: Refusal["reason"]): Refusal {
    const seconds = Math.ceil((this.#count * this.#gapMs) / 1000);
    const retryAfterS = Math.min(Math.max(seconds, RETRY_S_MIN), RETRY_S_MAX);
    return { status: reason === "key-full" ? 429 : 503, retryAfterS, reason };
  }
}

function compare(a: number, b: number): number {
  return a < b ? -1 : Number(a > b);
}
