import type { Clock, Timer } from "#base";
import { FairQueue } from "./fair-queue.ts";

/** A request that waits for a worker. */
export interface QueuedRequest {
  /** Requests of one API key share its turns; clients without one share "". */
  readonly key: string;
  /** Smaller ones go first, always. */
  readonly priority: number;
  /** Prompt tokens that are likely to be computed: what it costs its key. */
  readonly uncachedTokens: number;
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
  readonly request: QueuedRequest;
  readonly stopTimer: () => void;
}

/**
 * Requests that no worker takes yet: strict priorities, and within one fair between API keys by
 * uncached tokens. Bounded in number and time.
 */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  /** By priority. */
  readonly #tiers = new Map<number, FairQueue<Waiting>>();
  readonly #keyCounts = new Map<string, number>();
  #count = 0;
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

  /** Queues a request. Returns a function that takes it out again, or why it may not wait. */
  offer(request: QueuedRequest): (() => void) | Refusal {
    const { key, priority, uncachedTokens } = request;
    const { requestsMax, keyRequestsMax, timer, waitMsMax } = this.#options;
    if (this.#isClosed) return this.#refusal("closed");
    if ((this.#keyCounts.get(key) ?? 0) >= keyRequestsMax) return this.#refusal("key-full");
    if (this.#count >= requestsMax) return this.#refusal("full");
    const stopTimer = timer.after(waitMsMax, () => {
      if (this.#remove(waiting)) request.refuse(this.#refusal("waited"));
    });
    const waiting: Waiting = { key, priority, cost: uncachedTokens, request, stopTimer };
    const tier = this.#tiers.get(priority) ?? this.#newTier(priority);
    tier.add(waiting);
    this.#countKey(key, 1);
    return () => this.#remove(waiting);
  }

  /** Admits the next request; false: none waits. Called whenever a worker has room. */
  admitNext(): boolean {
    for (const [priority, tier] of this.#inOrder()) {
      const waiting = tier.take();
      if (waiting === null) continue;
      if (tier.isEmpty) this.#tiers.delete(priority);
      waiting.stopTimer();
      this.#countKey(waiting.key, -1);
      this.#measureGap();
      waiting.request.admit();
      return true;
    }
    return false;
  }

  /** Refuses all that wait, and all that come. */
  close(): void {
    this.#isClosed = true;
    for (const [, tier] of this.#inOrder()) {
      for (let waiting = tier.take(); waiting !== null; waiting = tier.take()) {
        waiting.stopTimer();
        this.#countKey(waiting.key, -1);
        waiting.request.refuse(this.#refusal("closed"));
      }
    }
    this.#tiers.clear();
  }

  #inOrder(): [number, FairQueue<Waiting>][] {
    return [...this.#tiers].sort(([a], [b]) => a - b);
  }

  #newTier(priority: number): FairQueue<Waiting> {
    const tier = new FairQueue<Waiting>(this.#options.quantumTokens ?? QUANTUM_TOKENS);
    this.#tiers.set(priority, tier);
    return tier;
  }

  #remove(waiting: Waiting): boolean {
    const tier = this.#tiers.get(waiting.priority);
    if (tier === undefined || !tier.remove(waiting)) return false;
    if (tier.isEmpty) this.#tiers.delete(waiting.priority);
    waiting.stopTimer();
    this.#countKey(waiting.key, -1);
    return true;
  }

  #countKey(key: string, by: 1 | -1): void {
    this.#count += by;
    const count = (this.#keyCounts.get(key) ?? 0) + by;
    if (count > 0) this.#keyCounts.set(key, count);
    else this.#keyCounts.delete(key);
  }

  #measureGap(): void {
    const nowMs = this.#options.clock.nowMs();
    if (this.#lastAdmittedMs !== null) {
      this.#gaps = Math.min(this.#gaps + 1, GAPS);
      this.#gapMs += (nowMs - this.#lastAdmittedMs - this.#gapMs) / this.#gaps;
    }
    this.#lastAdmittedMs = nowMs;
  }

  /** Who comes back when those before it have gone finds a place. */
  #refusal(reason: Refusal["reason"]): Refusal {
    const seconds = Math.ceil((this.#count * this.#gapMs) / 1000);
    const retryAfterS = Math.min(Math.max(seconds, RETRY_S_MIN), RETRY_S_MAX);
    return { status: reason === "key-full" ? 429 : 503, retryAfterS, reason };
  }
}
