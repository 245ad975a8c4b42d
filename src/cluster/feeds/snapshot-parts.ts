import { EngineError } from "#base";
import type { KvFeedSink } from "#cluster/protocol";
import { parseKvSnapshot } from "#kvcache";
import { changesOfSnapshot } from "./perigee-changes.ts";
import type { SseMessage } from "./sse-messages.ts";
import type { WorkerScope } from "./worker-scope.ts";

/** Where a snapshot ends in the worker's events. */
export interface SnapshotEnd {
  /** The first event that it does not contain. */
  readonly nextId: number;
  /** The name of the event before, to resume a stream from: number and name of the start. */
  readonly resumeId: string;
}

/** Takes the parts of one snapshot after the other: the first resets the sink. */
export class SnapshotParts {
  readonly #scope: WorkerScope;
  readonly #sink: KvFeedSink;
  #isLoading = false;

  constructor(scope: WorkerScope, sink: KvFeedSink) {
    this.#scope = scope;
    this.#sink = sink;
  }

  /** Applies a part; null until the last one. Throws for parts out of order, or malformed. */
  take({ id, data }: SseMessage): SnapshotEnd | null {
    const part = parseKvSnapshot(data);
    if (part.first) {
      this.#sink.reset("the worker sent a snapshot");
      this.#isLoading = true;
    } else if (!this.#isLoading) {
      throw new EngineError("NETWORK", "a snapshot came without its first part");
    }
    const changes = changesOfSnapshot(this.#scope, part.blocks);
    if (changes.length > 0) this.#sink.apply(changes);
    if (!part.last) return null;
    this.#isLoading = false;
    if (id === null) throw new EngineError("NETWORK", "a snapshot ended without an id");
    return { nextId: part.nextId, resumeId: id };
  }

  /** The connection ended: parts that came are no snapshot. */
  abandon(): void {
    this.#isLoading = false;
  }
}
