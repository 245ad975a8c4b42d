import type { KvEventSource } from "#engine";
import { isLost, type KvEventReader, type VllmEvent, VllmEventEncoder } from "#kvcache";

/** Maximum events of one batch: a snapshot is sent in several batches. */
const BATCH_EVENTS_MAX = 256;

/** The destination of batches; `ZmqKvPublisher` is one. */
export interface KvBatchSink {
  publish(events: readonly VllmEvent[]): Promise<void>;
  close(): Promise<void>;
}

/** Parameters of the published events, and the failure callback. */
export interface KvPublishingOptions {
  readonly blockTokens: number;
  /** By group of layers: the attention window in positions; null: unlimited. */
  readonly windows: readonly (number | null)[];
  /** Called with the error that stopped publishing; not called after `close`. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Publishes a cache's events in vLLM's format, a batch per step, starting with the first event.
 * After lost events, subscribers receive an event that clears the cache, then all blocks of a
 * snapshot. The hashes are the log's: those of a vLLM worker with PYTHONHASHSEED=0 if the setting
 * `hashAlgorithm` is `sha256_cbor`, else others.
 */
export class KvPublishing {
  readonly #source: KvEventSource;
  readonly #sink: KvBatchSink;
  readonly #encoder: VllmEventEncoder;
  readonly #running: Promise<void>;
  #reader: KvEventReader;
  #closed = false;

  /** Starts publishing at once. */
  constructor(source: KvEventSource, sink: KvBatchSink, options: KvPublishingOptions) {
    this.#source = source;
    this.#sink = sink;
    this.#encoder = new VllmEventEncoder(options.blockTokens, options.windows);
    this.#reader = source.read();
    this.#running = this.#run().catch((error: unknown) => {
      if (!this.#closed) options.onFailure(error);
    });
  }

  /** Finishes the current batch and closes the sink. */
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

  /** Events since the last call, in vLLM's format; null at the end. */
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
