/** Follows one of our own servers: `GET /kv_cache_events/stream`. */
import { EngineError } from "#base";
import { failureText, SaidOnce } from "#cluster/http";
import type { KvChange, KvFeed, KvFeedSink, WorkerInfo } from "#cluster/protocol";
import { parseKvEvent, parseKvRun } from "#kvcache";
import { BackOff, pause } from "./back-off.ts";
import { type FeedOptions, type FeedSettings, feedSettings } from "./feed-options.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { changesOfEvent, changesOfRun } from "./perigee-changes.ts";
import { type SnapshotEnd, SnapshotParts } from "./snapshot-parts.ts";
import type { SseMessage } from "./sse-messages.ts";
import { type WorkerScope, workerScope } from "./worker-scope.ts";
import { workerStream } from "./worker-stream.ts";

/**
 * Resumes after the last event that was read; where the worker cannot, it sends a snapshot and the
 * feed is reset. A message that cannot be read costs the connection and the place: what it said is
 * unknown then, and only a snapshot tells.
 */
export class PerigeeFeed implements KvFeed {
  readonly #url: string;
  readonly #scope: WorkerScope;
  readonly #settings: FeedSettings;
  readonly #backOff: BackOff;
  readonly #ended = new AbortController();
  #running: Promise<void> = Promise.resolve();
  /** Told since something was read: a worker that restarts is away, and loads, and is away. */
  readonly #said = new SaidOnce();
  #connected = false;
  /** All before it is known; null: nothing is. */
  #place: SnapshotEnd | null;

  /** `place`: where the sink is already; null: it knows nothing. */
  constructor(worker: WorkerInfo, options: FeedOptions = {}, place: SnapshotEnd | null = null) {
    this.#place = place;
    this.#url = worker.url;
    this.#scope = workerScope(worker);
    this.#settings = feedSettings(options);
    this.#backOff = new BackOff(this.#settings.retryMs);
  }

  /** 0 while the stream is followed: the server sends each event at once. */
  get lag(): number | null {
    return this.#connected && this.#place !== null ? 0 : null;
  }

  /** Where the sink is; null: only a snapshot tells. */
  get place(): SnapshotEnd | null {
    return this.#place;
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
      const failure = await this.#follow(sink);
      this.#connected = false;
      if (signal.aborted) return;
      if (this.#said.isNew(failure)) {
        warnings.warn(
          "connection",
          `Cannot follow KV events of ${this.#url}: ${failure}; trying again`,
        );
      }
      await pause(this.#backOff.next(), signal);
    }
  }

  /** Reads one connection to its end; returns why it ended. */
  async #follow(sink: KvFeedSink): Promise<string> {
    const request = {
      url: this.#url,
      settings: this.#settings,
      afterId: this.#place?.resumeId ?? null,
      signal: this.#ended.signal,
    };
    const parts = new SnapshotParts(this.#scope, sink);
    try {
      for await (const messages of workerStream(request)) this.#take(messages, parts, sink);
      return "the worker ended the stream";
    } catch (error) {
      return failureText(error);
    }
  }

  /** Applies what the messages say, in one call where they are only events. */
  #take(messages: readonly SseMessage[], parts: SnapshotParts, sink: KvFeedSink): void {
    const changes: KvChange[] = [];
    const flush = () => {
      if (changes.length > 0) sink.apply(changes.splice(0));
    };
    try {
      for (const message of messages) {
        switch (message.event) {
          case "message":
            changes.push(...this.#event(message));
            break;
          case "snapshot":
            flush();
            this.#place = parts.take(message);
            this.#noteRead();
            break;
          case "error":
            throw new EngineError("NETWORK", `the stream failed, ${message.data.slice(0, 300)}`);
        }
      }
      flush();
      this.#noteRead();
    } catch (error) {
      // What was refused is unknown, and so is all after it.
      this.#place = null;
      throw error;
    }
  }

  /** A worker that says something of use is soon asked again, whatever it says next. */
  #noteRead(): void {
    if (this.#place === null) return;
    this.#connected = true;
    this.#said.end();
    this.#backOff.reset();
  }

  #event({ id, data }: SseMessage): readonly KvChange[] {
    if (id === null || this.#place === null) {
      throw new EngineError("NETWORK", "an event came before a snapshot ended");
    }
    const { nextId } = this.#place;
    const packed = parseKvRun(data);
    const event = packed ?? parseKvEvent(data);
    if (event !== null && event.id !== nextId) {
      throw new EngineError("NETWORK", `event ${nextId} was to come, current value is ${event.id}`);
    }
    this.#place = { nextId: nextId + 1, resumeId: id };
    if (packed !== null) return changesOfRun(this.#scope, packed.run);
    return event === null || !("event" in event) ? [] : changesOfEvent(this.#scope, event);
  }
}
