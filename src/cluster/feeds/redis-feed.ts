import { EngineError, messageOf } from "#base";
import { failureText } from "#cluster/http";
import type { KvChange, KvFeed, KvFeedSink, WorkerInfo } from "#cluster/protocol";
import { BackOff, pause } from "./back-off.ts";
import { type FeedOptions, type FeedSettings, feedSettings } from "./feed-options.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { PerigeeFeed } from "./perigee-feed.ts";
import { changesFrom, type RedisEntry, readEntry } from "./redis-entry.ts";
import type { RedisStreams, StreamEntry, StreamReader } from "./redis-streams.ts";
import { type SnapshotEnd, SnapshotParts } from "./snapshot-parts.ts";
import { type WorkerScope, workerScope } from "./worker-scope.ts";
import { workerStream } from "./worker-stream.ts";

/** A place in the worker's events. */
interface Place {
  readonly nextId: number;
  readonly streamId: string;
}

/** Why following ended; the place stays known where only Redis is away. */
type FollowEnd = { readonly type: "away" } | { readonly type: "lost"; readonly reason: string };

/**
 * Follows a worker's events in its Redis stream, and takes snapshots from the worker itself: at the
 * beginning, where entries are missing (trimmed, lost by Redis or never published), and where they
 * belong to another start of the cache. Entries that a snapshot contains are passed over. While
 * Redis is away the worker is followed itself, from the same place on, and back: events have one
 * number in both.
 */
export class RedisFeed implements KvFeed {
  readonly #streams: RedisStreams;
  readonly #worker: WorkerInfo;
  readonly #options: FeedOptions;
  readonly #url: string;
  readonly #key: string;
  readonly #scope: WorkerScope;
  readonly #settings: FeedSettings;
  readonly #backOff: BackOff;
  readonly #ended = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #place: Place | null = null;
  /** While Redis is away. */
  #direct: PerigeeFeed | null = null;

  /** `key`: the worker's stream, `streamKey`. */
  constructor(
    worker: WorkerInfo,
    streams: { readonly redis: RedisStreams; readonly key: string },
    options: FeedOptions = {},
  ) {
    this.#worker = worker;
    this.#options = options;
    this.#streams = streams.redis;
    this.#key = streams.key;
    this.#url = worker.url;
    this.#scope = workerScope(worker);
    this.#settings = feedSettings(options);
    this.#backOff = new BackOff(this.#settings.retryMs);
  }

  /** 0 while the stream is followed, null while it is not. */
  get lag(): number | null {
    if (this.#direct !== null) return this.#direct.lag;
    return this.#place !== null && this.#streams.isConnected ? 0 : null;
  }

  start(sink: KvFeedSink): void {
    this.#running = this.#run(sink);
  }

  async close(): Promise<void> {
    this.#ended.abort();
    await this.#running;
  }

  async #run(sink: KvFeedSink): Promise<void> {
    const { signal } = this.#ended;
    const warnings = new PacedWarnings((message) => sink.warn(message));
    while (!signal.aborted) {
      try {
        const place = this.#place ?? (await this.#snapshot(sink));
        this.#place = place;
        const end = await this.#follow(place, sink);
        if (signal.aborted) return;
        if (end.type === "away") {
          this.#place = await this.#followDirectly(this.#place, sink);
          continue;
        }
        sink.reset(end.reason);
      } catch (error) {
        if (signal.aborted) return;
        const reason = failureText(error);
        warnings.warn(
          "snapshot",
          `Cannot take a snapshot of ${this.#url}: ${reason}; trying again`,
        );
      }
      this.#place = null;
      await pause(this.#backOff.next(), signal);
    }
  }

  /** Loads the worker's contents; returns where they end. */
  async #snapshot(sink: KvFeedSink): Promise<Place> {
    const parts = new SnapshotParts(this.#scope, sink);
    const { signal } = this.#ended;
    const request = { url: this.#url, settings: this.#settings, afterId: null, signal };
    for await (const messages of workerStream(request)) {
      for (const message of messages) {
        if (message.event === "error") throw new EngineError("NETWORK", "the stream failed");
        const end = message.event === "snapshot" ? parts.take(message) : null;
        if (end !== null) return placeOf(end);
      }
    }
    throw new EngineError("NETWORK", "the worker ended the stream");
  }

  /** Applies entries until one does not follow, or Redis is away. */
  #follow(start: Place, sink: KvFeedSink): Promise<FollowEnd> {
    const { signal } = this.#ended;
    return new Promise((resolve) => {
      const end = (how: FollowEnd) => {
        this.#streams.remove(reader);
        signal.removeEventListener("abort", leave);
        resolve(how);
      };
      const leave = () => end({ type: "lost", reason: "closed" });
      let place = start;
      const reader: StreamReader = {
        key: this.#key,
        get nextId() {
          return place.nextId;
        },
        take: (entries) => {
          try {
            for (const entry of entries) {
              place = this.#take(entry, place, sink);
              this.#place = place;
            }
            this.#backOff.reset();
          } catch (error) {
            end({ type: "lost", reason: messageOf(error) });
          }
        },
        reachable: (isReachable) => {
          if (!isReachable) end({ type: "away" });
        },
      };
      if (signal.aborted) leave();
      else this.#streams.add(reader);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** Follows the worker until Redis is back; where it got to, null: nowhere. */
  async #followDirectly(from: Place | null, sink: KvFeedSink): Promise<Place | null> {
    const direct = new PerigeeFeed(this.#worker, this.#options, from && endOf(from));
    this.#direct = direct;
    direct.start(sink);
    await this.#untilReachable(() => direct.place?.nextId ?? 0);
    await direct.close();
    this.#direct = null;
    return direct.place && placeOf(direct.place);
  }

  /** Settles when the stream is read again, from event `nextId` on, or at the end. */
  #untilReachable(nextId: () => number): Promise<void> {
    const { signal } = this.#ended;
    return new Promise((resolve) => {
      const end = () => {
        this.#streams.remove(reader);
        signal.removeEventListener("abort", end);
        resolve();
      };
      const reader: StreamReader = {
        key: this.#key,
        get nextId() {
          return nextId();
        },
        // Read again from the place where the worker's own stream was left.
        take: () => {},
        reachable: (isReachable) => {
          if (isReachable) end();
        },
      };
      if (signal.aborted) return resolve();
      this.#streams.addAway(reader);
      signal.addEventListener("abort", end, { once: true });
    });
  }

  #take([id, fields]: StreamEntry, place: Place, sink: KvFeedSink): Place {
    const entry = readEntry(id, fields);
    if (entry.nextId <= place.nextId) return place;
    if (entry.streamId !== place.streamId) {
      throw new EngineError("NETWORK", "the worker's cache began anew");
    }
    if (entry.firstId > place.nextId) {
      const { nextId } = place;
      throw new EngineError("NETWORK", `events ${nextId} to ${entry.firstId - 1} were lost`);
    }
    const changes = this.#changes(entry, place.nextId);
    if (changes.length > 0) sink.apply(changes);
    return { nextId: entry.nextId, streamId: place.streamId };
  }

  #changes(entry: RedisEntry, fromId: number): KvChange[] {
    return changesFrom(this.#scope, entry, fromId);
  }
}

function endOf({ nextId, streamId }: Place): SnapshotEnd {
  return { nextId, resumeId: `${nextId - 1}-${streamId}` };
}

/** `41-5f2d07aa`: event 41 of that start of the cache. */
function placeOf({ nextId, resumeId }: SnapshotEnd): Place {
  return { nextId, streamId: resumeId.slice(resumeId.lastIndexOf("-") + 1) };
}
