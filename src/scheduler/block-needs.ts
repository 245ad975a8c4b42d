import type { CacheWindow, KvCache } from "#kvcache";
import type { SchedulerConfig } from "./config.ts";

/**
 * Blocks that a sequence needs at a time, over all groups of layers. In a group with a window it
 * never holds more than the window and one chunk; in the others it holds all its tokens.
 */
export class BlockNeeds {
  /**
   * Most tokens that one step computes of a sequence: with the tokens that they see they must fit
   * the pool. Infinite where no window bounds anything.
   */
  readonly chunkTokens: number;
  /** Most positions of a sequence that the pool holds; infinite where all groups have windows. */
  readonly poolTokens: number;
  readonly #cache: KvCache;
  /** By group: blocks that a sequence holds at most at a time. */
  readonly #bounds: readonly number[];

  /**
   * Windows bound nothing where a step computes whole prompts, or where the pool does not hold the
   * windows and one token more.
   */
  constructor(cache: KvCache, config: SchedulerConfig) {
    this.#cache = cache;
    const chunk = config.chunkedPrefill ? longestChunk(cache, config.stepTokensMax) : 0;
    this.chunkTokens = chunk === 0 ? Number.POSITIVE_INFINITY : chunk;
    this.#bounds = cache.windows.map((window) => boundOf(cache, window, this.chunkTokens));
    const { totalBlocks, blockTokens } = cache;
    this.poolTokens = this.#bounds.every(Number.isFinite)
      ? Number.POSITIVE_INFINITY
      : largest(totalBlocks, (blocks) => this.held(blocks) <= totalBlocks) * blockTokens;
  }

  /** Most blocks that a sequence of `tokens` holds at a time until all are computed. */
  atOnce(tokens: number): number {
    return this.held(this.#cache.blocksFor(tokens));
  }

  /** Most blocks of a table of `length` that are held, without the first `shared` of each group. */
  held(length: number, shared = 0): number {
    let sum = 0;
    for (const bound of this.#bounds) sum += Math.max(0, Math.min(length, bound) - shared);
    return sum;
  }

  /**
   * Most blocks that `width` beams of up to `tokens` hold together: each stays on the device until
   * all can step. A preempted search resumes beam by beam. The later ones find the prompt that the
   * first computed in the prefix tree, unless a window has let go of it meanwhile, in any group of
   * layers: then all compute it, and the last needs its chunk beside the windows of the others.
   */
  ofBeams(width: number, promptLength: number, tokens: number): number {
    const cache = this.#cache;
    const length = cache.blocksFor(tokens);
    if (!cache.hasWindow) {
      const shared = cache.prefixCaching ? Math.floor(promptLength / cache.blockTokens) : 0;
      return cache.groupCount * (shared + width * (length - shared));
    }
    const resident = cache.windows.map((window) => Math.min(length, boundOf(cache, window, 1)));
    return resident.reduce((sum, blocks) => sum + (width - 1) * blocks, this.held(length));
  }

  /** Blocks that positions from `end` up to `length` will take, once those before are computed. */
  behind(end: number, length: number): number {
    const computed = this.#cache.blocksFor(end);
    const rest = this.#cache.blocksFor(length) - computed;
    if (rest <= 0) return 0;
    let sum = 0;
    for (const [group, bound] of this.#bounds.entries()) {
      // Blocks that fall out of the window are free for the rest.
      const { from, to } = this.#cache.unseenBlocks(end, group);
      sum += Math.min(rest, Math.max(0, bound - (computed - (to - from))));
    }
    return sum;
  }
}

/** Most tokens of a chunk that fit the pool with the windows; 0: none, or there is no window. */
function longestChunk(cache: KvCache, most: number): number {
  const { windows, totalBlocks } = cache;
  if (windows.every((window) => window === null)) return 0;
  return largest(most, (chunk) => {
    const needed = windows.map((window) => (window === null ? 1 : boundOf(cache, window, chunk)));
    return needed.reduce((sum, blocks) => sum + blocks, 0) <= totalBlocks;
  });
}

/** Blocks that a group with this window holds at most, where steps compute `chunk` tokens. */
function boundOf(cache: KvCache, window: CacheWindow | null, chunk: number): number {
  if (window === null) return Number.POSITIVE_INFINITY;
  // A chunk sees so many tokens before its first one. They and the chunk may begin and end inside
  // of blocks, which takes one block more.
  const seen = window.tokens - window.sinkTokens - 1;
  return cache.blocksFor(window.sinkTokens) + cache.blocksFor(seen + chunk) + 1;
}

/** The largest whole number up to `most` that `fits`, where all below it fit, too; 0: none. */
function largest(most: number, fits: (value: number) => boolean): number {
  let low = 0;
  let high = most;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}
