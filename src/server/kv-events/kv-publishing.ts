import type { KvEventSource } from "#engine";
import { isLost, type KvEventReader, type VllmEvent, VllmEventEncoder } from "#kvcache";

/** Most events of one batch: a snapshot is sent in several. */
const BATCH_EVENTS_MAX = 256;

/** Where batches go; `ZmqKvPublisher` is one. */
export interface KvBatchSink {
  publish(events: readonly VllmEvent[]): Promise<void>;
  close(): Promise<void>;
}

/** What is published, and who hears of trouble. */
export interface KvPublishingOptions {
  readonly blockTokens: number;
  /** Most positions that a token sees; null: all. */
  readonly window: number | null;
  /** It cannot go on, and why; not called after `close`. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Hands a cache's events on in vLLM's words, a batch per step, from the first one on. Where events
 * were lost, subscribers are told that nothing is there, and then everything from a snapshot.
 */
export class KvPublishing {
  readonly #source: KvEventSource;
  readonly #sink: KvBatchSink;
  readonly #encoder: VllmEventEncoder;
  readonly #running: Promise<void>;
  #reader: KvEventReader;
  #closed = false;

  /** Starts at once. */
  constructor(source: KvEventSource, sink: KvBatchSink, options: KvPublishingOptions) {
    this.#source = source;
    this.#sink = sink;
    this.#encoder = new VllmEventEncoder(options.blockTokens, options.window);
    this.#reader = source.read();
    this.#running = this.#run().catch((error: unknown) => {
      if (!this.#closed) options.onFailure(error);
    });
  }

  /** Finishes the batch under way and closes the sink. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#reader.return();
    await this.#running;
    await this.#sink.close();
  }

  async #run(): Promise<void> {
    for (;;) {
      const events = await this.#next();
      if (events === null) return;
      for (let start = 0; start < events.length; start += BATCH_EVENTS_MAX) {
        await this.#sink.publish(events.slice(start, start + BATCH_EVENTS_MAX));
      }
    }
  }

  /** What came since the last call, in vLLM's words; null at the end. */
  async #next(): Promise<readonly VllmEvent[] | null> {
    const items = await this.#reader.take();
    if (items === null) return null;
    const events: VllmEvent[] = [];
    for (const item of items) {
      const translated = isLost(item) ? null : this.#encoder.encode(item);
      if (translated === null) return this.#startAnew();
      events.push(...translated);
    }
    return events;
  }

  async #startAnew(): Promise<readonly VllmEvent[]> {
    const snapshot = await this.#source.snapshot();
    await this.#reader.return();
    if (!this.#closed) this.#reader = this.#source.read(snapshot.nextId - 1);
    return this.#encoder.load(snapshot);
  }
}
