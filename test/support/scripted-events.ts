/** A source of KV events as a loaded model has one, of which a test says what happens. */
import { processClock, systemTimer } from "#base";
import type { KvEventSource } from "#engine";
import { type KvEvent, KvEventLog, KvEventQueue, type KvSnapshot } from "#kvcache";
import { KvEvents } from "../../src/engine/caller/kv-events.ts";

export const STREAM_ID = "5f2d07aa";

export class ScriptedEvents {
  readonly source: KvEventSource;
  readonly log: KvEventLog;
  readonly #queue = new KvEventQueue([64, 32, 16]);
  /** What the cache holds; replaced by tests that emit what changes it. */
  blocks: () => KvSnapshot["blocks"] = () => [];

  constructor(bufferMax = 100, streamId: string = STREAM_ID) {
    const enabled = bufferMax > 0;
    this.log = new KvEventLog(Math.max(1, bufferMax));
    if (!enabled) this.log.close();
    this.source = new KvEvents({
      log: this.log,
      enabled,
      hashAlgorithm: "v1_block_key",
      streamId,
      takeSnapshot: async () => this.snapshot(),
      timer: systemTimer,
    });
    this.flush();
  }

  /** The cache changes; readers hear of it at once. */
  emit(...events: readonly KvEvent[]): void {
    for (const event of events) this.queue(event);
    this.flush();
  }

  /** The cache changes within a step. */
  queue(event: KvEvent): void {
    this.#queue.emit(event);
  }

  /** The step is over. */
  flush(): void {
    this.log.append(this.#queue.flush(), processClock.nowMs());
  }

  snapshot(): KvSnapshot {
    this.flush();
    return {
      nextId: this.#queue.nextId,
      blocksPerLevel: [64, 32, 16],
      blocks: this.blocks(),
    };
  }
}
