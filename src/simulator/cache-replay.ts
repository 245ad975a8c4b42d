import { assert, type Clock, IntList } from "#base";
import { BlockTable, type EvictionPolicyName, KvCache } from "#kvcache";
import type { Trace, TraceRequest } from "./trace.ts";

/** The settings of a trace's run. */
export interface ReplayOptions {
  readonly policy: EvictionPolicyName;
  /** Blocks of the pool; null: as many as the trace can fill. */
  readonly capacityBlocks: number | null;
  readonly clock: Clock;
  /** Receives what each request found, in the trace's order. */
  readonly onRequest?: (row: ReplayedRequest) => void;
  /** Receives the number of finished requests, now and then. */
  readonly onProgress?: (requests: number) => void;
}

/** What one request found in the cache. */
export interface ReplayedRequest {
  /** Its place in the trace, from 0. */
  readonly request: number;
  /** The trace's timestamp. */
  readonly arrivalMs: number;
  readonly promptTokens: number;
  /** In the leading blocks that were stored. */
  readonly cachedTokens: number;
  /** As recorded: a replay makes none. */
  readonly outputTokens: number;
}

/** The result of one cache on one trace. */
export interface ReplayResult {
  readonly policy: EvictionPolicyName;
  /** null: without bound. */
  readonly capacityBlocks: number | null;
  /** Leading blocks that were stored, of all blocks. */
  readonly blockHitRate: number;
  /** Tokens in them, of all tokens. */
  readonly tokenHitRate: number;
  readonly requests: number;
  /** Blocks of all requests. */
  readonly blockRefs: number;
  /** Evicted blocks. */
  readonly evictions: number;
  readonly seconds: number;
  /** Blocks found, allocated, published, released and evicted. */
  readonly blockOperations: number;
}

/**
 * Appended to the hash ids of a prompt. The cache leaves a prompt's last token to compute; the
 * trace counts every block that is stored, and hash ids count from 0.
 */
const END = -1;
const PROGRESS_REQUESTS = 1000;

/**
 * Runs a trace through the production cache, one request after the other in the trace's order: its
 * times are ignored. A request looks its blocks up, holds all of them, publishes those that are new
 * and releases them, tail first. Of a request that does not fit, the head is held.
 *
 * A hash id becomes the single token of a block, since the id names its whole prefix; blocks of
 * token rows have `blockTokens` tokens, as in the engine, where only full ones are shared. Hits are
 * counted as in Qin et al. 2024, "Mooncake", table 1: the leading run that is stored.
 */
export function replayTrace(trace: Trace, options: ReplayOptions): ReplayResult {
  const { policy, capacityBlocks, clock } = options;
  const replay = new CacheReplay(trace, policy, capacityBlocks ?? trace.blockRefs);
  const startedMs = clock.nowMs();
  let inputTokens = 0;
  trace.requests.forEach((request, index) => {
    inputTokens += request.inputTokens;
    const cachedTokens = replay.serve(request);
    options.onRequest?.({
      ...{ request: index, arrivalMs: request.timestampMs, promptTokens: request.inputTokens },
      ...{ cachedTokens, outputTokens: request.outputTokens },
    });
    if ((index + 1) % PROGRESS_REQUESTS === 0) options.onProgress?.(index + 1);
  });
  return {
    policy,
    capacityBlocks,
    blockHitRate: share(replay.hitBlocks, trace.blockRefs),
    tokenHitRate: share(replay.hitTokens, inputTokens),
    requests: trace.requests.length,
    blockRefs: trace.blockRefs,
    evictions: replay.evictions,
    seconds: (clock.nowMs() - startedMs) / 1000,
    blockOperations: replay.operations,
  };
}

class CacheReplay {
  readonly #trace: Trace;
  readonly #cache: KvCache;
  readonly #tokens = new IntList();
  hitBlocks = 0;
  hitTokens = 0;
  #operations = 0;

  constructor(trace: Trace, evictionPolicy: EvictionPolicyName, capacityBlocks: number) {
    this.#trace = trace;
    this.#cache = new KvCache({
      // More could never be filled.
      blocks: Math.max(1, Math.min(capacityBlocks, trace.blockRefs)),
      blockTokens: trace.kind === "blocks" ? 1 : trace.blockTokens,
      evictionPolicy,
    });
  }

  get evictions(): number {
    return this.#cache.evictions;
  }

  get operations(): number {
    return this.#operations + this.evictions;
  }

  /** Returns the tokens that were found. */
  serve(request: TraceRequest): number {
    const { ids } = request;
    const cache = this.#cache;
    this.#fill(ids);
    const match = cache.match("", this.#tokens.view());
    const hits = match.blocks.length;
    this.hitBlocks += hits;
    const hitTokens = Math.min(hits * this.#trace.blockTokens, request.inputTokens);
    this.hitTokens += hitTokens;

    const table = new BlockTable();
    cache.adopt(table, match);
    const blocks = Math.min(cache.blocksFor(ids.length), cache.totalBlocks);
    const taken = cache.allocate(table, blocks - hits);
    assert(taken, "Cannot replay a request: all blocks must be available");
    cache.publish(table, this.#tokens, Math.min(ids.length, blocks * cache.blockTokens));
    this.#operations += hits + blocks + (table.publishedBlocks - hits) + blocks;
    this.#prioritise(table, request.priorities);
    cache.release(table);
    return hitTokens;
  }

  #fill(ids: Int32Array): void {
    this.#tokens.clear();
    for (const id of ids) this.#tokens.push(id);
    if (this.#trace.kind === "blocks") this.#tokens.push(END);
  }

  #prioritise(table: BlockTable, priorities: Uint8Array | null): void {
    if (priorities === null) return;
    const end = Math.min(priorities.length, table.length);
    for (let index = 0; index < end; index++) {
      this.#cache.prioritise(table, index, index + 1, priorities[index] ?? 0);
    }
  }
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}
