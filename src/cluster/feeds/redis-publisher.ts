import type { Redis } from "ioredis";
import { messageOf } from "#base";
import { isLost, type KvEventReader, type NumberedKvEvent } from "#kvcache";
import { BackOff, pause } from "./back-off.ts";
import { packChanges } from "./change-codec.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { changesOfEvent } from "./perigee-changes.ts";
import { inTime, openRedis } from "./redis-client.ts";
import { entryFields, entryId } from "./redis-entry.ts";
import type { WorkerScope } from "./worker-scope.ts";

/** What is published: the events of a served model. */
export interface KvEventOrigin {
  /** Names this start of the cache. */
  readonly streamId: string;
  read(afterId?: number): KvEventReader;
}

export interface RedisPublisherOptions {
  readonly url: string;
  /** `streamKey` of the worker. */
  readonly key: string;
  readonly scope: WorkerScope;
  /** Receives lines for the log. */
  readonly warn: (message: string) => void;
  /** Most batches kept, about. Default: 10,000. */
  readonly batchesMax?: number;
  /** Most bytes kept, about. Default: 64 MiB. */
  readonly bytesMax?: number;
}

const BATCHES_MAX = 10_000;
const BYTES_MAX = 2 ** 26;
/** A stream whose worker is gone leaves Redis after this; readers lose nothing by it. */
const EXPIRE_MS = 600_000;
const EXPIRE_EACH_MS = 60_000;
const RETRY_MS = [100, 5000] as const;

/** An entry as it was sent. */
interface SentEntry {
  readonly id: string;
  readonly fields: readonly (string | Buffer)[];
}

/**
 * Publishes a cache's events to a Redis stream, a batch per entry. While Redis is away events stay
 * in the cache's own log; those that it drops are a gap in the numbers, which readers end with a
 * snapshot from the worker. A Redis that comes back without the last entry gets it again: without
 * it, who had not read it would see no gap until the next event.
 */
export class RedisPublisher {
  readonly #options: RedisPublisherOptions;
  readonly #redis: Redis;
  readonly #streamId: string;
  readonly #reader: KvEventReader;
  readonly #ended = new AbortController();
  readonly #running: Promise<void>;
  /** Sizes of the entries that are kept. */
  readonly #sizes: number[] = [];
  #bytes = 0;
  #expiresMs = 0;
  #last: SentEntry | null = null;

  /** Begins with the events kept. Throws INVALID_ARGUMENT for a URL that is none of Redis. */
  constructor(origin: KvEventOrigin, options: RedisPublisherOptions) {
    this.#options = options;
    this.#redis = openRedis(options.url, options.warn);
    this.#redis.on("ready", () => void this.#repair());
    this.#streamId = origin.streamId;
    this.#reader = origin.read();
    this.#running = this.#run();
  }

  /** Ends publishing; the stream stays for readers that are behind. */
  async close(): Promise<void> {
    this.#ended.abort();
    await this.#reader.return();
    this.#redis.disconnect();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ended;
    const warnings = new PacedWarnings(this.#options.warn);
    const backOff = new BackOff(RETRY_MS);
    for (;;) {
      const items = await this.#reader.take();
      if (items === null || signal.aborted) return;
      const events = items.filter((item) => !isLost(item)) as readonly NumberedKvEvent[];
      if (events.length === 0) continue;
      while (!signal.aborted && !(await this.#tried(events, warnings))) {
        await pause(backOff.next(), signal);
      }
      backOff.reset();
    }
  }

  /** Whether the events are in Redis now; false: they are to be tried again. */
  async #tried(events: readonly NumberedKvEvent[], warnings: PacedWarnings): Promise<boolean> {
    try {
      await this.#add(events);
      return true;
    } catch (error) {
      const reason = messageOf(error);
      try {
        if (/equal or smaller/.test(reason)) return await this.#isThere(events, warnings);
      } catch {
        // Redis is away again: its connection says so.
      }
      if (this.#redis.status === "ready") {
        warnings.warn("add", `Cannot publish KV events to Redis: ${reason}; trying again`);
      }
      return false;
    }
  }

  /**
   * An entry has the number of these events, or a later one. Either an earlier try had arrived,
   * though its answer had not; or another program wrote there, and the stream begins anew.
   */
  async #isThere(events: readonly NumberedKvEvent[], warnings: PacedWarnings): Promise<boolean> {
    const { key } = this.#options;
    const [last] = await inTime(this.#redis.xrevrange(key, "+", "-", "COUNT", 1), this.#redis);
    const [first] = events as readonly [NumberedKvEvent]; // There is one at least.
    if (last?.[0] === entryId(first.id + events.length)) return true;
    warnings.warn("foreign", `Redis had entries at ${key} that are not this worker's: removed`);
    await this.#redis.del(key);
    return false;
  }

  async #add(events: readonly NumberedKvEvent[]): Promise<void> {
    const { scope, key } = this.#options;
    const [first] = events as readonly [NumberedKvEvent]; // There is one at least.
    const nextId = first.id + events.length;
    const packed = packChanges(events.map((event) => changesOfEvent(scope, event)));
    const payload = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
    const entry = { streamId: this.#streamId, firstId: first.id, nextId, payload };
    const kept = this.#kept(payload.length);
    const sent = { id: entryId(nextId), fields: entryFields(entry) };
    const added = this.#redis.xadd(key, "MAXLEN", "~", kept, sent.id, ...sent.fields);
    await inTime(added, this.#redis);
    this.#last = sent;
    const nowMs = performance.now();
    if (nowMs < this.#expiresMs) return;
    this.#expiresMs = nowMs + EXPIRE_EACH_MS;
    await this.#redis.pexpire(key, EXPIRE_MS);
  }

  /** Adds the last entry again where Redis has it no more. Never rejects. */
  async #repair(): Promise<void> {
    const sent = this.#last;
    if (sent === null) return;
    const { key } = this.#options;
    try {
      const [last] = await inTime(this.#redis.xrevrange(key, "+", "-", "COUNT", 1), this.#redis);
      if (last?.[0] !== sent.id)
        await inTime(this.#redis.xadd(key, sent.id, ...sent.fields), this.#redis);
    } catch {
      // Away again: then it is tried again; or a later entry is there, which shows the gap.
    }
  }

  /** How many entries may stay, with one more of this size. */
  #kept(bytes: number): number {
    const { batchesMax = BATCHES_MAX, bytesMax = BYTES_MAX } = this.#options;
    this.#sizes.push(bytes);
    this.#bytes += bytes;
    while (this.#sizes.length > 1 && (this.#sizes.length > batchesMax || this.#bytes > bytesMax)) {
      this.#bytes -= this.#sizes.shift() ?? 0;
    }
    return this.#sizes.length;
  }
}
