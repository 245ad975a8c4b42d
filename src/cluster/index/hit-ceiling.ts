/**
 * The hit rate that one cache without end and with perfect routing would have had, beside the real
 * one, and why they differ. A router whose index never answers shows at once: all is lost, and the
 * cause says where.
 *
 * Seen blocks are remembered in two generations of bounded size; when the younger one is full, the
 * older is forgotten. The ceiling is exact while nothing was forgotten; from then on it is too low
 * by what comes back only after `blocksMax` or more other blocks.
 */
import type { PrefixMatch, PromptBlocks } from "#cluster/protocol";
import { ByteBudget } from "./byte-budget.ts";
import { KeyedSlab } from "./keyed-slab.ts";

/** Words of a seen block: its name, and what is known of it. */
const WORDS = 3;
const FLAGS = 2;
/** It was announced, by any worker; it was sent to a worker that announces. */
const ANNOUNCED = 1;
const EXPECTED = 2;

export interface HitCeilingOptions {
  /** Most blocks of one generation, of some 22 to 33 bytes each. Default 2^20. */
  readonly blocksMax?: number;
}

/** What is known of each leading block of a prompt that a cache without end would have. */
export type SeenBefore = Uint8Array;

/** What became of one request. Requests that fail are not recorded. */
export interface RoutedRequest {
  readonly prompt: PromptBlocks;
  readonly promptTokens: number;
  /** What the index said of all workers when the request was routed. */
  readonly matches: readonly PrefixMatch[];
  /** What it said of the worker that got the request; null: that it has nothing. */
  readonly chosen: PrefixMatch | null;
  /** As the worker reported; null: it does not say, and the index is believed. */
  readonly cachedTokens: number | null;
  /** What `expect` said when the request was routed. */
  readonly before: SeenBefore;
}

/** Tokens of prompts that a cache without end would have had, and the fleet had not. */
export interface LostTokens {
  /** Some worker had announced them, but none has them any more. */
  readonly evicted: number;
  /** They were sent only to workers that announce nothing, and are not remembered. */
  readonly neverAnnounced: number;
  /** Another worker has them than the one that was chosen. */
  readonly routedAway: number;
  /** Computed by a worker that announces, but never announced under the name looked for. */
  readonly keyDiffers: number;
  /** The index said that the worker has them, and it had not. */
  readonly stale: number;
}

/** Sums since the start, in tokens. */
export interface CeilingStats {
  readonly requests: number;
  readonly promptTokens: number;
  /** That were cached, and that could have been. */
  readonly hitTokens: number;
  readonly ceilingTokens: number;
  /** Hits that the ceiling does not know: of before the start, or of parts of blocks. */
  readonly beyondTokens: number;
  /** Sum: `ceilingTokens - (hitTokens - beyondTokens)`. */
  readonly lost: LostTokens;
  /** Blocks that were forgotten: 0: the ceiling is exact. */
  readonly forgotten: number;
  readonly bytes: number;
}

/** Whole blocks of one request, each no more than the next but `cached`. */
interface Reach {
  readonly cached: number;
  readonly promised: number;
  readonly anywhere: number;
  readonly before: SeenBefore;
}

export class HitCeiling {
  readonly #blocksMax: number;
  #young = new SeenBlocks();
  #old = new SeenBlocks();
  #forgotten = 0;
  #requests = 0;
  #promptTokens = 0;
  #hitTokens = 0;
  #ceilingTokens = 0;
  #beyondTokens = 0;
  readonly #lost = { evicted: 0, neverAnnounced: 0, routedAway: 0, keyDiffers: 0, stale: 0 };

  constructor({ blocksMax = 2 ** 20 }: HitCeilingOptions = {}) {
    this.#blocksMax = blocksMax;
  }

  /** Blocks that a worker announced, low and high halves. */
  stored(keys: Uint32Array): void {
    for (let at = 0; at < keys.length; at += 2) this.#see(keys[at]!, keys[at + 1]!, ANNOUNCED);
  }

  /**
   * A request is routed: the leading blocks that a cache without end would have by now. To be asked
   * once a request, and before its own blocks are announced: later they would look as if they had
   * been there.
   */
  expect({ keys }: PromptBlocks, announces: boolean): SeenBefore {
    const flag = announces ? EXPECTED : 0;
    const young = this.#young;
    const { before, isKnown } = this.#leading(keys, flag);
    for (let at = 0, block = 0; at < keys.length; at += 2, block++) {
      // What is known so already stays as it is, as long as nothing was forgotten meanwhile.
      if (isKnown[block] === 1 && this.#young === young) continue;
      this.#see(keys[at]!, keys[at + 1]!, flag);
    }
    return before;
  }

  /** A request was answered. */
  record(request: RoutedRequest): void {
    const { prompt, promptTokens, matches, chosen, before, cachedTokens } = request;
    const { blockTokens } = prompt.scope;
    const ideal = before.length;
    const promised = Math.min(ideal, chosen?.levels[2] ?? 0);
    const best = matches.reduce((most, { levels }) => Math.max(most, levels[2]), 0);
    const hitTokens = cachedTokens ?? (chosen?.levels[2] ?? 0) * blockTokens;
    const cached = Math.min(ideal, Math.floor(hitTokens / blockTokens));
    const anywhere = Math.min(ideal, Math.max(promised, best));
    this.#requests++;
    this.#promptTokens += promptTokens;
    this.#hitTokens += hitTokens;
    this.#ceilingTokens += ideal * blockTokens;
    this.#beyondTokens += hitTokens - cached * blockTokens;
    this.#lose({ cached, promised, anywhere, before }, blockTokens);
  }

  stats(): CeilingStats {
    return {
      requests: this.#requests,
      promptTokens: this.#promptTokens,
      hitTokens: this.#hitTokens,
      ceilingTokens: this.#ceilingTokens,
      beyondTokens: this.#beyondTokens,
      lost: { ...this.#lost },
      forgotten: this.#forgotten,
      bytes: this.#young.bytes + this.#old.bytes,
    };
  }

  /**
   * What is known of the leading blocks that some request or event had before; `isKnown`: which of
   * them are in the younger generation, with the flag.
   */
  #leading(keys: Uint32Array, flag: number) {
    const blocks = keys.length >>> 1;
    const flags = new Uint8Array(blocks);
    const isKnown = new Uint8Array(blocks);
    let leading = 0;
    for (; leading < blocks; leading++) {
      const low = keys[leading * 2]!;
      const high = keys[leading * 2 + 1]!;
      const young = this.#young.flagsOf(low, high);
      const found = young >= 0 ? young : this.#old.flagsOf(low, high);
      if (found < 0) break;
      flags[leading] = found;
      isKnown[leading] = young >= 0 && (young & flag) === flag ? 1 : 0;
    }
    return { before: flags.slice(0, leading), isKnown };
  }

  #lose({ cached, promised, anywhere, before }: Reach, blockTokens: number): void {
    this.#lost.stale += Math.max(0, promised - cached) * blockTokens;
    const had = Math.max(cached, promised);
    this.#lost.routedAway += Math.max(0, anywhere - had) * blockTokens;
    for (let block = Math.max(had, anywhere); block < before.length; block++) {
      const flags = before[block]!;
      if (flags & ANNOUNCED) this.#lost.evicted += blockTokens;
      else if (flags & EXPECTED) this.#lost.keyDiffers += blockTokens;
      else this.#lost.neverAnnounced += blockTokens;
    }
  }

  #see(low: number, high: number, flag: number): void {
    const before = this.#young.flagsOf(low, high);
    if (before >= 0 && (before & flag) === flag) return;
    const older = before >= 0 ? before : Math.max(0, this.#old.flagsOf(low, high));
    if (before < 0 && this.#young.count >= this.#blocksMax) {
      // Those of the old that were seen again since are in the young, too.
      this.#forgotten += this.#old.count;
      this.#old = this.#young;
      this.#young = new SeenBlocks();
    }
    this.#young.set(low, high, older | flag);
  }
}

/** One generation. */
class SeenBlocks {
  readonly #budget = new ByteBudget(Number.POSITIVE_INFINITY);
  readonly #entries = new KeyedSlab(WORDS, this.#budget, null);

  get count(): number {
    return this.#entries.count;
  }

  get bytes(): number {
    return this.#budget.bytes;
  }

  /** -1: not seen. */
  flagsOf(low: number, high: number): number {
    const id = this.#entries.find(low, high);
    return id < 0 ? -1 : this.#entries.chunkOf(id)[this.#entries.placeOf(id) + FLAGS]!;
  }

  set(low: number, high: number, flags: number): void {
    const found = this.#entries.find(low, high);
    const id = found < 0 ? this.#entries.insertSought(low, high) : found;
    this.#entries.chunkOf(id)[this.#entries.placeOf(id) + FLAGS] = flags;
  }
}
