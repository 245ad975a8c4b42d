import type {
  KvEvent,
  KvSnapshot,
  NumberedKvEvent,
  SnapshotBlock,
  StoredBlock,
} from "./kv-event.ts";

/**
 * A cache's contents, reconstructed from its events: for routers and dashboards, and for tests,
 * which compare it with the cache itself.
 */
export class KvMirror {
  readonly #blocks = new Map<bigint, SnapshotBlock>();
  #blocksPerLevel: readonly number[] = [];
  #nextId = 0;

  /** The event that must come next. */
  get nextId(): number {
    return this.#nextId;
  }

  /** Blocks that the cache has room for, per level; empty before the first event. */
  get blocksPerLevel(): readonly number[] {
    return this.#blocksPerLevel;
  }

  /** Number of contents. */
  get size(): number {
    return this.#blocks.size;
  }

  /** The contents with a hash; null where the cache does not have them. */
  find(hash: bigint): SnapshotBlock | null {
    return this.#blocks.get(hash) ?? null;
  }

  /** All contents, in the order in which they were added. */
  blocks(): IterableIterator<SnapshotBlock> {
    return this.#blocks.values();
  }

  /**
   * Applies one event. An event that was applied before changes nothing; false, and nothing
   * changes, where events are missing before it: load a snapshot.
   */
  apply({ id, event }: NumberedKvEvent): boolean {
    if (id > this.#nextId) return false;
    if (id < this.#nextId) return true;
    this.#nextId++;
    this.#follow(event);
    return true;
  }

  /** Forgets everything and starts from a snapshot. */
  load(snapshot: KvSnapshot): void {
    this.#blocks.clear();
    for (const block of snapshot.blocks) this.#blocks.set(block.hash, block);
    this.#blocksPerLevel = snapshot.blocksPerLevel;
    this.#nextId = snapshot.nextId;
  }

  /** Whether both have the same contents, whatever their positions in the stream of events. */
  equals(snapshot: KvSnapshot): boolean {
    if (snapshot.blocks.length !== this.#blocks.size) return false;
    return snapshot.blocks.every((block) => {
      const known = this.#blocks.get(block.hash);
      return known !== undefined && sameBlock(known, block);
    });
  }

  #follow(event: KvEvent): void {
    switch (event.type) {
      case "created":
        this.#blocks.clear();
        this.#blocksPerLevel = event.blocksPerLevel;
        break;
      case "stored":
        this.#store(event.parentHash, event.blocks);
        break;
      case "removed":
      case "cleared":
        for (const hash of event.hashes) this.#blocks.delete(hash);
        break;
      case "updated": {
        const block = this.#blocks.get(event.hash);
        if (block === undefined) break;
        const level = event.level?.newValue ?? block.level;
        const priority = event.priority?.newValue ?? block.priority;
        this.#blocks.set(event.hash, { ...block, level, priority });
        break;
      }
    }
  }

  #store(parentHash: bigint | null, blocks: readonly StoredBlock[]): void {
    let parent = parentHash;
    for (const block of blocks) {
      this.#blocks.set(block.hash, { ...block, parentHash: parent });
      parent = block.hash;
    }
  }
}

function sameBlock(left: SnapshotBlock, right: SnapshotBlock): boolean {
  return (
    left.parentHash === right.parentHash &&
    left.level === right.level &&
    left.priority === right.priority &&
    left.loraId === right.loraId &&
    left.cacheSalt === right.cacheSalt &&
    sameItems(left.tokenIds, right.tokenIds) &&
    sameItems(left.extraIds ?? [], right.extraIds ?? []) &&
    sameItems(left.multimodalKeys.map(keyText), right.multimodalKeys.map(keyText))
  );
}

const keyText = (key: { readonly hash: string; readonly startOffset: number }) =>
  `${key.hash} ${key.startOffset}`;

function sameItems<T>(left: readonly T[], right: readonly T[]): boolean {
  return left.length === right.length && left.every((value, place) => value === right[place]);
}
