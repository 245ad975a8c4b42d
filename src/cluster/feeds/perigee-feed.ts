/** Follows one of our own servers: `GET /kv_cache_events/stream`. */
import { EngineError } from "#base";
import type { KvChange, KvFeed, KvFeedSink, WorkerInfo } from "#cluster/protocol";
import { parseKvEvent, parseKvSnapshot } from "#kvcache";
import { BackOff, pause } from "./back-off.ts";
import { type FeedOptions, type FeedSettings, feedSettings } from "./feed-options.ts";
import { causeOf } from "./http-body.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { changesOfEvent, changesOfSnapshot } from "./perigee-changes.ts";
import { type SseMessage, SseMessages } from "./sse-messages.ts";
import { type WorkerScope, workerScope } from "./worker-scope.ts";

/** What the feed has of the worker's contents. */
type Place =
  /** Nothing: the next connection begins with a snapshot. */
  | { readonly type: "none" }
  /** Some parts of a snapshot. */
  | { readonly type: "loading" }
  /** All up to the event of this name. */
  | { readonly type: "following"; readonly id: string };

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
  #connected = false;
  #place: Place = { type: "none" };
  /** The number that the next event must have. */
  #nextId = 0;

  constructor(worker: WorkerInfo, options: FeedOptions = {}) {
    this.#url = worker.url;
    this.#scope = workerScope(worker);
    this.#settings = feedSettings(options);
    this.#backOff = new BackOff(this.#settings.retryMs);
  }

  /** 0 while the stream is followed: the server sends each event at once. */
  get lag(): number | null {
    return this.#connected && this.#place.type === "following" ? 0 : null;
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
      const failure = await this.#follow(sink, () => warnings.forget("connection"));
      this.#connected = false;
      if (this.#place.type === "loading") this.#place = { type: "none" };
      if (signal.aborted) return;
      warnings.warn(
        "connection",
        `Cannot follow KV events of ${this.#url}: ${failure}; trying again`,
      );
      await pause(this.#backOff.next(), signal);
    }
  }

  /** Reads one connection to its end; returns why it ended. */
  async #follow(sink: KvFeedSink, onConnected: () => void): Promise<string> {
    const stop = new AbortController();
    const stopNow = () => stop.abort();
    this.#ended.signal.addEventListener("abort", stopNow, { once: true });
    const watch = new SilenceWatch(this.#settings.silenceMs, stop);
    try {
      const body = await this.#connect(stop.signal);
      onConnected();
      const messages = new SseMessages(this.#settings.messageBytesMax);
      const decoder = new TextDecoder();
      for await (const bytes of body) {
        watch.heard();
        this.#take(messages.push(decoder.decode(bytes, { stream: true })), sink);
      }
      return "the worker ended the stream";
    } catch (error) {
      if (watch.isSilent) return `nothing came for ${this.#settings.silenceMs} ms`;
      return error instanceof EngineError ? error.message : causeOf(error);
    } finally {
      watch.end();
      stop.abort();
      this.#ended.signal.removeEventListener("abort", stopNow);
    }
  }

  async #connect(signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
    const { apiKey } = this.#settings;
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (apiKey !== null) headers.authorization = `Bearer ${apiKey}`;
    if (this.#place.type === "following") headers["last-event-id"] = this.#place.id;
    const url = `${this.#url}/kv_cache_events/stream`;
    const response = await fetch(url, { headers, signal, redirect: "error" });
    if (response.status !== 200 || response.body === null) {
      // A place that the worker does not take is no place.
      if (response.status === 400) this.#place = { type: "none" };
      await response.body?.cancel();
      throw new EngineError("NETWORK", `it answered ${response.status}`);
    }
    return response.body as AsyncIterable<Uint8Array>; // Node's web streams can be iterated.
  }

  /** Applies what the messages say, in one call where they are only events. */
  #take(messages: readonly SseMessage[], sink: KvFeedSink): void {
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
            this.#snapshotPart(message, sink);
            break;
          case "error":
            throw new EngineError("NETWORK", `the stream failed, ${message.data.slice(0, 300)}`);
        }
      }
      flush();
    } catch (error) {
      // What was refused is unknown, and so is all after it.
      this.#place = { type: "none" };
      throw error;
    }
    if (this.#place.type === "following") {
      this.#connected = true;
      this.#backOff.reset();
    }
  }

  #event({ id, data }: SseMessage): readonly KvChange[] {
    const event = parseKvEvent(data);
    if (id === null || this.#place.type !== "following") {
      throw new EngineError("NETWORK", "an event came before the snapshot ended");
    }
    if (event === null) {
      this.#nextId++;
    } else {
      if (event.id !== this.#nextId) {
        const wanted = this.#nextId;
        throw new EngineError(
          "NETWORK",
          `event ${wanted} was to come, current value is ${event.id}`,
        );
      }
      this.#nextId++;
    }
    this.#place = { type: "following", id };
    return event === null ? [] : changesOfEvent(this.#scope, event);
  }

  #snapshotPart({ id, data }: SseMessage, sink: KvFeedSink): void {
    const part = parseKvSnapshot(data);
    if (part.first) {
      sink.reset("the worker sent a snapshot");
      this.#place = { type: "loading" };
    } else if (this.#place.type !== "loading") {
      throw new EngineError("NETWORK", "a snapshot came without its first part");
    }
    const changes = changesOfSnapshot(this.#scope, part.blocks);
    if (changes.length > 0) sink.apply(changes);
    if (!part.last) return;
    if (id === null) throw new EngineError("NETWORK", "a snapshot ended without an id");
    this.#nextId = part.nextId;
    this.#place = { type: "following", id };
  }
}

/** Ends a connection on which nothing comes: a stopped process keeps its connections open. */
class SilenceWatch {
  readonly #timeout: NodeJS.Timeout;
  #silent = false;

  constructor(silenceMs: number, stop: AbortController) {
    this.#timeout = setTimeout(() => {
      this.#silent = true;
      stop.abort();
    }, silenceMs);
    this.#timeout.unref();
  }

  get isSilent(): boolean {
    return this.#silent;
  }

  heard(): void {
    this.#timeout.refresh();
  }

  end(): void {
    clearTimeout(this.#timeout);
  }
}
