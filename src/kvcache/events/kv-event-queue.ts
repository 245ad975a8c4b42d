import type { KvEvent, NumberedKvEvent, StoredBlock } from "./kv-event.ts";

/** Readers may bound the size of one event; at 512 tokens a block this is half a million tokens. */
const BLOCKS_PER_EVENT_MAX = 1024;

/** An event that may still grow. */
type Pending =
  | { readonly type: "stored"; readonly parentHash: bigint | null; readonly blocks: StoredBlock[] }
  | { readonly type: "removed"; readonly hashes: bigint[] }
  | Exclude<KvEvent, { readonly type: "stored" } | { readonly type: "removed" }>;

/**
 * The cache's side of events: collects those of a step, in order, and numbers them when the step is
 * over. Adjacent events are merged where the meaning is the same: a run of stored blocks, a run of
 * removals. A cache without events has no queue.
 */
export class KvEventQueue {
  #pending: { readonly group: number; readonly event: Pending }[] = [];
  #nextId = 0;

  /**
   * `blocksPerLevel`: the contents of the first events, `created`, one per group of layers. The
   * group that sees most is the last of them, as in TensorRT-LLM.
   */
  constructor(blocksPerLevel: readonly number[], groups = 1) {
    for (let group = groups - 1; group >= 0; group--) {
      this.#pending.push({ group, event: { type: "created", blocksPerLevel } });
    }
  }

  /** The number of the first event that `flush` has not returned yet. */
  get nextId(): number {
    return this.#nextId;
  }

  /** Queues an event, merged into the last one where possible. */
  emit(event: KvEvent, group = 0): void {
    const last = this.#pending.at(-1);
    if (last?.group === group && joins(last.event, event)) return;
    this.#pending.push({ group, event: growable(event) });
  }

  /** All events since the last call, numbered on: 0, 1, 2 and so on. Once per step. */
  flush(): readonly NumberedKvEvent[] {
    if (this.#pending.length === 0) return [];
    const events = this.#pending.map(({ group, event }) =>
      group === 0 ? { id: this.#nextId++, event } : { id: this.#nextId++, group, event },
    );
    this.#pending = [];
    return events;
  }
}

/** Merges `event` into the one before it, where one event can express both. */
function joins(last: Pending, event: KvEvent): boolean {
  if (last.type === "removed" && event.type === "removed") {
    if (last.hashes.length + event.hashes.length > BLOCKS_PER_EVENT_MAX) return false;
    last.hashes.push(...event.hashes);
    return true;
  }
  if (last.type !== "stored" || event.type !== "stored") return false;
  if (event.parentHash === null || last.blocks.at(-1)?.hash !== event.parentHash) return false;
  if (last.blocks.length + event.blocks.length > BLOCKS_PER_EVENT_MAX) return false;
  last.blocks.push(...event.blocks);
  return true;
}

/** The event with lists of its own: the caller's may be read-only, or used again. */
function growable(event: KvEvent): Pending {
  switch (event.type) {
    case "stored":
      return { ...event, blocks: [...event.blocks] };
    case "removed":
      return { ...event, hashes: [...event.hashes] };
    default:
      return event;
  }
}
