/** Polls a TensorRT-LLM server: `POST /kv_cache_events`. */
import { EngineError } from "#base";
import { Deadline, failureText } from "#cluster/http";
import type { KvFeed, KvFeedSink, WorkerInfo } from "#cluster/protocol";
import { BackOff, pause } from "./back-off.ts";
import { type FeedOptions, type FeedSettings, feedSettings } from "./feed-options.ts";
import { PacedWarnings } from "./paced-warnings.ts";
import { TrtllmReader } from "./trtllm-reader.ts";
import { type WorkerScope, workerScope } from "./worker-scope.ts";

/** Pause after an answer without events; older servers hold the request for up to 2 s. */
const IDLE_MS = 250;

/** Pause after an answer with events. */
const BUSY_MS = 20;

/**
 * An answer takes its events away: only one router may poll a server, and one that was lost on the
 * way is a gap.
 */
export class TrtllmFeed implements KvFeed {
  readonly #url: string;
  readonly #scope: WorkerScope;
  readonly #settings: FeedSettings;
  readonly #ended = new AbortController();
  #running: Promise<void> = Promise.resolve();
  /** The last answer was read, and is all there was. */
  #isFollowing = false;

  constructor(worker: WorkerInfo, options: FeedOptions = {}) {
    this.#url = worker.url;
    this.#scope = workerScope(worker);
    this.#settings = feedSettings(options);
  }

  /** 0 after an answer, which has all there is; null while there is none. */
  get lag(): number | null {
    return this.#isFollowing ? 0 : null;
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
    const backOff = new BackOff(this.#settings.retryMs);
    const reader = new TrtllmReader(this.#scope, sink, warnings);
    while (!signal.aborted) {
      try {
        const events = reader.read(await this.#poll());
        this.#isFollowing = true;
        backOff.reset();
        await pause(events === 0 ? IDLE_MS : BUSY_MS, signal);
      } catch (error) {
        this.#isFollowing = false;
        if (signal.aborted) return;
        const reason = failureText(error);
        warnings.warn(
          "connection",
          `Cannot follow KV events of ${this.#url}: ${reason}; trying again`,
        );
        await pause(backOff.next(), signal);
      }
    }
  }

  async #poll(): Promise<string> {
    const { apiKey, silenceMs, messageBytesMax, http } = this.#settings;
    const headers: Record<string, string> = { accept: "application/json" };
    if (apiKey !== null) headers.authorization = `Bearer ${apiKey}`;
    const deadline = new Deadline(silenceMs, this.#ended.signal);
    try {
      const { signal } = deadline;
      const url = `${this.#url}/kv_cache_events`;
      const answer = await http.ask(url, { method: "POST", headers, signal });
      if (answer.status === 200) return await answer.text(messageBytesMax);
      answer.drop();
      throw new EngineError("NETWORK", `it answered ${answer.status}`);
    } catch (error) {
      if (!deadline.isLate) throw error;
      throw new EngineError("NETWORK", `no answer within ${silenceMs} ms`, { cause: error });
    } finally {
      deadline.end();
    }
  }
}
