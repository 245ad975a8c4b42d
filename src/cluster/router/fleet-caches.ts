/** The blocks of all workers: a feed for each worker that announces its cache, into one index. */
import type { Clock } from "#base";
import { feedFor, type RedisStreams, workerScope } from "#cluster/feeds";
import type { WorkerHttp } from "#cluster/http";
import { FleetIndex, type FleetIndexStats } from "#cluster/index";
import type {
  KvChange,
  KvFeed,
  Member,
  Membership,
  WorkerInfo,
  WorkerNumber,
} from "#cluster/protocol";
import { adapterOf, type IndexPlace, type PrefixQuery } from "#cluster/routing";

/** Pieces of text in a block, where no tokenizer is known: 128 characters. */
const TEXT_BLOCK = 32;
/** Blocks of workers that are gone that are given back at a time, in some 2 ms, and how often. */
const RECLAIMED_AT_ONCE = 4096;
const RECLAIM_MS = 10;
/** Of a worker that does not say. */
const BLOCK_TOKENS = 16;

export interface FleetCachesOptions {
  readonly clock: Clock;
  readonly bytesMax: number;
  /** How long a worker that announces nothing is thought to have a prompt. */
  readonly ttlMs: number;
  /** Where workers of our own keep their events in Redis; null: they are read over HTTP. */
  readonly streams: RedisStreams | null;
  /** Sent to workers whose events are followed. */
  readonly apiKeyOf: (info: WorkerInfo) => string | null;
  /** What asks workers. */
  readonly http: WorkerHttp;
  /**
   * Whether prompts for the worker can be had as tokens before a client sends some. Default: true.
   * Events name blocks of tokens: until there are any, those of others are not read.
   */
  readonly readsTokens?: (info: WorkerInfo) => boolean;
  /** Told of all announced blocks. */
  readonly onStored: (worker: WorkerNumber, keys: Uint32Array) => void;
  /** Told of a worker that is gone: its number may be another's. */
  readonly onLeft: (worker: WorkerNumber) => void;
  /** One line for operators. */
  readonly say: (message: string) => void;
}

/** A worker's place in the index. */
interface Cache {
  readonly number: WorkerNumber;
  readonly feed: KvFeed | null;
  /** The feed was started. */
  isFollowed: boolean;
  /** Changes that came, and how often all was forgotten. */
  changes: number;
  resets: number;
  /** Prompts that were sent to it while it had announced nothing. */
  unannounced: number;
  /** Tokens of first blocks that were announced last. */
  readonly beginnings: Uint32Array[];
}

/** How a worker's cache is known. */
export interface CacheReport {
  readonly workerId: string;
  readonly announces: boolean;
  /** Its events are read: some prompt of its model was tokens, not only text. */
  readonly isFollowed: boolean;
  readonly changes: number;
  readonly resets: number;
  /** Prompts that were sent to it while it could announce blocks, and had announced none. */
  readonly unannounced: number;
  readonly lag: number | null;
}

export class FleetCaches {
  readonly index: FleetIndex;
  readonly #membership: Membership;
  readonly #options: FleetCachesOptions;
  readonly #caches = new Map<string, Cache>();
  readonly #stopListening: () => void;
  #reclaiming: NodeJS.Timeout | null = null;

  constructor(membership: Membership, options: FleetCachesOptions) {
    this.#membership = membership;
    this.#options = options;
    const { clock, bytesMax, ttlMs, onStored } = options;
    this.index = new FleetIndex({
      ...{ clock, bytesMax, ttlMs },
      onStored,
    });
    for (const member of membership.workers.values()) this.#join(member);
    this.#stopListening = membership.listen({
      joined: (member) => this.#join(member),
      changed: () => {},
      left: (id) => this.#leave(id),
    });
  }

  /** Where the worker's blocks are looked up for a query; null: it is no member. */
  placeOf(info: WorkerInfo, query: Partial<PrefixQuery> = {}): IndexPlace | null {
    const { isText, model, tokens = null } = query;
    const cache = this.#caches.get(info.id);
    if (cache === undefined) return null;
    const { number } = cache;
    const { index } = this;
    if (tokens !== null && isText !== true) this.#follow(info, cache);
    const [main = ""] = info.models;
    const lora = adapterOf(info, model ?? null);
    const announces = this.announces(info) && isText !== true;
    const routed: IndexPlace["routed"] = (prompt) => index.routed(number, prompt, false);
    const place = { lookup: index, number, announces, lora };
    if (announces && isBlind(info)) {
      // What its events tell is looked up by no request: it may be an adapter's.
      const { blockTokens } = info.kv ?? { blockTokens: BLOCK_TOKENS };
      return { ...place, announces: false, model: `sent to ${main}`, blockTokens, routed };
    }
    if (announces && info.kv !== null) {
      const exact = { ...place, groupWindows: info.kv.groupWindows, ...workerScope(info) };
      if (info.kind === "perigee" || cache.changes > 0) return exact;
      // An engine whose events are off looks like one that has nothing: until the first event its
      // blocks are guessed from what it was sent.
      const guess: IndexPlace["routed"] = (prompt) => {
        cache.unannounced++;
        routed(prompt);
      };
      return { ...exact, routed: guess };
    }
    if (isText) return { ...place, model: `text of ${main}`, blockTokens: TEXT_BLOCK, routed };
    return { ...place, model: main, blockTokens: info.kv?.blockTokens ?? BLOCK_TOKENS, routed };
  }

  /** First blocks of prompts that the worker announced last: their tokens. */
  beginningsOf(workerId: string): readonly Uint32Array[] {
    return this.#caches.get(workerId)?.beginnings ?? [];
  }

  /** Whether the worker's events are followed. */
  announces({ id }: WorkerInfo): boolean {
    return (this.#caches.get(id)?.feed ?? null) !== null;
  }

  stats(): FleetIndexStats {
    return this.index.stats();
  }

  reports(): CacheReport[] {
    return [...this.#caches].map(([workerId, { feed, ...cache }]) => ({
      ...{ workerId, isFollowed: cache.isFollowed, changes: cache.changes },
      ...{ resets: cache.resets, unannounced: cache.unannounced },
      announces: feed !== null,
      lag: feed?.lag ?? null,
    }));
  }

  async close(): Promise<void> {
    this.#stopListening();
    this.#stopReclaiming();
    const feeds = [...this.#caches.values()].map(({ feed }) => feed?.close());
    this.#caches.clear();
    await Promise.all(feeds);
  }

  #join({ info }: Member): void {
    const { apiKeyOf, streams, http, readsTokens } = this.#options;
    const feed = feedFor(info, { apiKey: apiKeyOf(info), redis: streams, http });
    const number = this.index.join({ announces: feed !== null });
    const cache: Cache = {
      ...{ number, feed, isFollowed: false, changes: 0, resets: 0, unannounced: 0 },
      beginnings: [],
    };
    this.#caches.set(info.id, cache);
    if (readsTokens?.(info) ?? true) this.#follow(info, cache);
  }

  #follow(info: WorkerInfo, cache: Cache): void {
    if (cache.isFollowed || cache.feed === null) return;
    cache.isFollowed = true;
    const { number } = cache;
    // A late event must not be counted for the number's next owner.
    const stateOf = (id: string) => this.#membership.workers.get(id)?.state;
    const isMember = () => this.#caches.get(info.id) === cache;
    cache.feed.start({
      apply: (changes) => {
        if (!isMember()) return;
        cache.changes += changes.length;
        keepBeginnings(cache.beginnings, changes);
        this.index.apply(number, changes);
        if (this.index.reclaims) this.#reclaimSoon();
      },
      reset: () => {
        if (!isMember()) return;
        cache.resets++;
        this.index.reset(number);
        this.#reclaimSoon();
      },
      warn: (message) => {
        // A worker that leaves or is away ends its stream, too: that is said of the worker.
        if (stateOf(info.id) !== "ready") return;
        const { say } = this.#options;
        say(message.includes(info.id) ? message : `events of worker ${info.id}: ${message}`);
      },
    });
  }

  #leave(id: string): void {
    const cache = this.#caches.get(id);
    if (cache === undefined) return;
    this.#caches.delete(id);
    void cache.feed?.close();
    this.index.leave(cache.number);
    this.#options.onLeft(cache.number);
    this.#reclaimSoon();
  }

  /** In slices: a worker's million blocks at once would hold up all requests for half a second. */
  #reclaimSoon(): void {
    this.#reclaiming ??= setInterval(() => {
      if (this.index.reclaim(RECLAIMED_AT_ONCE)) return;
      this.#stopReclaiming();
    }, RECLAIM_MS).unref();
  }

  #stopReclaiming(): void {
    if (this.#reclaiming !== null) clearInterval(this.#reclaiming);
    this.#reclaiming = null;
  }
}

/** SGLang's events do not tell the blocks of its adapters from those of their base model. */
function isBlind({ kind, adapters = [] }: WorkerInfo): boolean {
  return kind === "sglang" && adapters.length > 0;
}

const BEGINNINGS = 4;

/** Of the last of the changes that begin prompts. */
function keepBeginnings(beginnings: Uint32Array[], changes: readonly KvChange[]): void {
  const last = changes.findLast((change) => change.type === "stored" && change.parent === null);
  if (last?.type !== "stored" || last.tokens.length === 0) return;
  beginnings.push(last.tokens.slice(0, last.scope.blockTokens));
  if (beginnings.length > BEGINNINGS) beginnings.shift();
}
