import type { SharedLoad, WorkerBooks, WorkerLoad, WorkerSpeeds } from "#cluster/protocol";
import { prefillMs } from "./load.ts";

/** A request's share of its worker's load. Changed by its reservation alone. */
export interface Share {
  uncachedTokens: number;
  uncachedPairs: number;
  heldBlocks: number;
  /** Where the request waits for its first token: when it became the first in line; else null. */
  headSinceMs: number | null;
  /** It became the first when the one before it was done: parts of both may share a step. */
  follows: boolean;
  readonly sinceMs: number;
  /** Its first token is not seen: its prompt counts as computed after the time that it takes. */
  readonly isUnseen: boolean;
}

/** Load that this router did not cause. */
interface ForeignLoad {
  readonly requests: number;
  readonly uncachedTokens: number;
  readonly heldBlocks: number;
  readonly decoding: number;
  readonly untilMs: number;
}

const NO_FOREIGN: ForeignLoad = {
  requests: 0,
  uncachedTokens: 0,
  heldBlocks: 0,
  decoding: 0,
  untilMs: Number.NEGATIVE_INFINITY,
};

/** The sums of one start of a worker. Prompts are computed in the order they came. */
export class WorkerAccount {
  /** null: not known yet. */
  epoch: string | null;
  readonly #waiting = new Set<Share>();
  #requests = 0;
  #uncachedTokens = 0;
  #uncachedPairs = 0;
  #heldBlocks = 0;
  #foreign = NO_FOREIGN;
  /** The most since the last report: a report says nothing of the order it was made in. */
  #peakRequests = 0;
  #peakUncachedTokens = 0;
  #peakHeldBlocks = 0;
  #peakDecoding = 0;
  #lastWaitMs = Number.NEGATIVE_INFINITY;
  /** Requests that the worker had when it refused one. */
  #takesMax = Number.POSITIVE_INFINITY;
  #takesUntilMs = 0;

  constructor(epoch: string | null) {
    this.epoch = epoch;
  }

  add(share: Share, nowMs: number): void {
    if (this.#waiting.size === 0) share.headSinceMs = nowMs;
    this.#waiting.add(share);
    this.#requests++;
    this.#uncachedTokens += share.uncachedTokens;
    this.#uncachedPairs += share.uncachedPairs;
    this.#heldBlocks += share.heldBlocks;
    this.#peakRequests = Math.max(this.#peakRequests, this.#requests);
    this.#peakUncachedTokens = Math.max(this.#peakUncachedTokens, this.#uncachedTokens);
    this.#peakHeldBlocks = Math.max(this.#peakHeldBlocks, this.#heldBlocks);
  }

  /** The prompt is computed, or the request ends before. */
  stopWaiting(share: Share, nowMs: number): void {
    if (!this.#waiting.delete(share)) return;
    this.#lastWaitMs = nowMs;
    this.#uncachedTokens -= share.uncachedTokens;
    this.#uncachedPairs -= share.uncachedPairs;
    share.uncachedTokens = 0;
    share.uncachedPairs = 0;
    if (share.headSinceMs !== null) {
      for (const next of this.#waiting) {
        next.headSinceMs = nowMs;
        next.follows = true;
        break;
      }
      share.headSinceMs = null;
    }
    this.#peakDecoding = Math.max(this.#peakDecoding, this.#requests - this.#waiting.size);
  }

  grow(share: Share, heldBlocks: number): void {
    this.#heldBlocks += heldBlocks - share.heldBlocks;
    share.heldBlocks = heldBlocks;
    this.#peakHeldBlocks = Math.max(this.#peakHeldBlocks, this.#heldBlocks);
  }

  remove(share: Share, nowMs: number): void {
    this.stopWaiting(share, nowMs);
    this.#requests--;
    this.#heldBlocks -= share.heldBlocks;
    share.heldBlocks = 0;
  }

  /** Whether no prompt was computed since: steps had tokens of requests that decode alone. */
  undisturbedSince(ms: number): boolean {
    return this.#waiting.size === 0 && this.#lastWaitMs <= ms;
  }

  /**
   * How much longer than its own prompt takes the oldest request without a first token has waited,
   * in ms: more than other prompts before it, it says that the worker has no place for it.
   */
  lateMs(nowMs: number, speeds: WorkerSpeeds): number {
    this.#passUnseen(nowMs, speeds);
    for (const { sinceMs, uncachedTokens, uncachedPairs, isUnseen } of this.#waiting) {
      if (isUnseen) continue;
      return Math.max(nowMs - sinceMs - prefillMs(speeds, uncachedTokens, uncachedPairs), 0);
    }
    return 0;
  }

  /** The worker refused a request beside those that it has. */
  refused(untilMs: number): void {
    this.#takesMax = this.#requests;
    this.#takesUntilMs = untilMs;
  }

  /** Requests that the worker takes at once, as far as it has said. */
  takesMax(nowMs: number): number {
    return nowMs < this.#takesUntilMs ? this.#takesMax : Number.POSITIVE_INFINITY;
  }

  /** Prompts whose first tokens are not seen are over when their time is. */
  #passUnseen(nowMs: number, speeds: WorkerSpeeds): void {
    for (const share of this.#waiting) {
      if (!share.isUnseen || share.headSinceMs === null) return;
      const ms = prefillMs(speeds, share.uncachedTokens, share.uncachedPairs);
      const doneMs = share.headSinceMs + ms;
      if (doneMs > nowMs) return;
      this.stopWaiting(share, doneMs);
    }
  }

  /** The first in line shrinks with time, down to nothing where it takes longer than expected. */
  view(nowMs: number, speeds: WorkerSpeeds | null): WorkerBooks {
    if (speeds !== null) this.#passUnseen(nowMs, speeds);
    const foreign = this.#foreign.untilMs > nowMs ? this.#foreign : NO_FOREIGN;
    const [head, part] = this.#headProgress(nowMs, speeds);
    const ownTokens = this.#uncachedTokens - part * head.uncachedTokens;
    const pairsPerToken = ownTokens > 0 ? this.#uncachedPairs / this.#uncachedTokens : 0;
    return {
      requests: this.#requests + foreign.requests,
      uncachedTokens: ownTokens + foreign.uncachedTokens,
      // Of other routers' prompts the tokens alone are known: they are taken to be like these.
      uncachedPairs:
        this.#uncachedPairs - part * head.uncachedPairs + foreign.uncachedTokens * pairsPerToken,
      heldBlocks: this.#heldBlocks + foreign.heldBlocks,
      decoding: this.#requests - this.#waiting.size + foreign.decoding,
    };
  }

  report(load: WorkerLoad, blocks: number, untilMs: number): void {
    const running = load.runningRequests;
    this.#setForeign({
      requests: over(running + load.waitingRequests, this.#peakRequests),
      uncachedTokens: over(load.uncachedTokens, this.#peakUncachedTokens),
      heldBlocks: over(Math.round(load.blocksUsed * blocks), this.#peakHeldBlocks),
      decoding: over(running, this.#peakDecoding),
      untilMs,
    });
  }

  shared(load: SharedLoad, untilMs: number): void {
    const requests = over(load.requests, this.#requests);
    this.#setForeign({
      requests,
      uncachedTokens: over(load.uncachedTokens, this.#uncachedTokens),
      heldBlocks: over(load.heldBlocks, this.#heldBlocks),
      // Those that wait for their first token will decode soon.
      decoding: requests,
      untilMs,
    });
  }

  #setForeign(foreign: ForeignLoad): void {
    this.#foreign = foreign;
    this.#peakRequests = this.#requests;
    this.#peakUncachedTokens = this.#uncachedTokens;
    this.#peakHeldBlocks = this.#heldBlocks;
    this.#peakDecoding = this.#requests - this.#waiting.size;
  }

  /** The first in line, and the part of it that is computed. */
  #headProgress(nowMs: number, speeds: WorkerSpeeds | null): [Share, number] {
    if (speeds === null) return [NO_SHARE, 0];
    for (const head of this.#waiting) {
      const elapsedMs = nowMs - (head.headSinceMs ?? nowMs);
      const wholeMs = prefillMs(speeds, head.uncachedTokens, head.uncachedPairs);
      return [head, wholeMs > 0 ? Math.min(Math.max(elapsedMs / wholeMs, 0), 1) : 0];
    }
    return [NO_SHARE, 0];
  }
}

const NO_SHARE: Share = {
  ...{ uncachedTokens: 0, uncachedPairs: 0, heldBlocks: 0, headSinceMs: null },
  ...{ follows: false, sinceMs: 0, isUnseen: false },
};

function over(all: number, own: number): number {
  return Math.max(0, all - own);
}
