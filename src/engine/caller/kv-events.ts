import { randomUUID } from "node:crypto";
import { EngineError, systemTimer, type Timer } from "#base";
import type { EngineOptions, KvEventSource, ModelInfo } from "#engine/protocol";
import type {
  BlockHashAlgorithm,
  KvEventLog,
  KvEventReader,
  KvSnapshot,
  NumberedKvEvent,
} from "#kvcache";
import type { EngineClient } from "./engine-client.ts";

/** Hexadecimal digits: two streams of one server never have the same name. */
const STREAM_ID_LENGTH = 8;

/** Parts of a `KvEvents`. */
export interface KvEventsParts {
  /** Receives the events; closed from the start for a cache that emits none. */
  readonly log: KvEventLog;
  readonly enabled: boolean;
  readonly hashAlgorithm: BlockHashAlgorithm;
  readonly streamId: string;
  readonly takeSnapshot: () => Promise<KvSnapshot>;
  readonly timer: Timer;
}

/** A cache's events on the calling thread: the log, with time-outs and snapshots. */
export class KvEvents implements KvEventSource {
  readonly #parts: KvEventsParts;

  constructor(parts: KvEventsParts) {
    this.#parts = parts;
  }

  get enabled(): boolean {
    return this.#parts.enabled;
  }

  get hashAlgorithm(): BlockHashAlgorithm {
    return this.#parts.hashAlgorithm;
  }

  get streamId(): string {
    return this.#parts.streamId;
  }

  get bufferMax(): number {
    return this.#parts.enabled ? this.#parts.log.capacity : 0;
  }

  get firstId(): number {
    return this.#parts.log.firstId;
  }

  get nextId(): number {
    return this.#parts.log.nextId;
  }

  async getLatestEvents(
    timeoutMs?: number,
    signal?: AbortSignal,
  ): Promise<readonly NumberedKvEvent[]> {
    if (timeoutMs !== undefined && !(timeoutMs >= 0)) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot wait for events: timeoutMs must be at least 0, current value is ${timeoutMs}`,
        { param: "timeoutMs" },
      );
    }
    const { log, timer } = this.#parts;
    if (timeoutMs === 0) return log.takeLatest();
    const stop = new AbortController();
    const stopNow = () => stop.abort();
    const cancel = timeoutMs === undefined ? () => {} : timer.after(timeoutMs, stopNow);
    signal?.addEventListener("abort", stopNow, { once: true });
    if (signal?.aborted === true) stopNow();
    try {
      return await log.takeNext(stop.signal);
    } finally {
      cancel();
      signal?.removeEventListener("abort", stopNow);
    }
  }

  timeOf(id: number): number | null {
    return this.#parts.log.timeOf(id);
  }

  read(afterId?: number): KvEventReader {
    return this.#parts.log.read(afterId);
  }

  snapshot(): Promise<KvSnapshot> {
    return this.#parts.takeSnapshot();
  }

  [Symbol.asyncIterator](): KvEventReader {
    return this.read();
  }
}

/** Cache events of a loaded model. An encoder has no KV cache, and so emits none. */
export function kvEventsOf(
  client: EngineClient,
  { kind }: ModelInfo,
  { kvCache: { eventBufferMax, hashAlgorithm } }: EngineOptions,
): KvEvents {
  const enabled = kind === "decoder" && eventBufferMax > 0;
  if (!enabled) client.kvEvents.close();
  return new KvEvents({
    log: client.kvEvents,
    enabled,
    hashAlgorithm,
    streamId: randomUUID().slice(0, STREAM_ID_LENGTH),
    takeSnapshot: () => client.kvSnapshot(),
    timer: systemTimer,
  });
}
