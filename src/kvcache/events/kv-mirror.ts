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
  readonly #blocks = new Map<ContentKey, SnapshotBlock>();
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

  /** The contents with a hash in a group of layers; null where the cache does not have them. */
  find(hash: bigint, group = 0): SnapshotBlock | null {
    return this.#blocks.get(keyOf(hash, group)) ?? null;
  }

  /** All contents, in the order in which they were added. */
  blocks(): IterableIterator<SnapshotBlock> {
    return this.#blocks.values();
  }

  /**
   * Applies one event. An event that was applied before changes nothing; false, and nothing
   * changes, where events are missing before it: load a snapshot.
   */
  apply({ id, event, group = 0 }: NumberedKvEvent): boolean {
    if (id > this.#nextId) return false;
    if (id < this.#nextId) return true;
    this.#nextId++;
    this.#follow(event, group);
    return true;
  }

  /** Forgets everything and starts from a snapshot. */
  load(snapshot: KvSnapshot): void {
    this.#blocks.clear();
    for (const block of snapshot.blocks) this.#blocks.set(keyOf(block.hash, block.group), block);
    this.#blocksPerLevel = snapshot.blocksPerLevel;
    this.#nextId = snapshot.nextId;
  }

  /** Whether both have the same contents, whatever their positions in the stream of events. */
  equals(snapshot: KvSnapshot): boolean {
    if (snapshot.blocks.length !== this.#blocks.size) return false;
    return snapshot.blocks.every((block) => {
      const known = this.#blocks.get(keyOf(block.hash, block.group));
      return known !== undefined && sameBlock(known, block);
    });
  }

  #follow(event: KvEvent, group: number): void {
    switch (event.type) {
      case "created":
        this.#blocks.clear();
        this.#blocksPerLevel = event.blocksPerLevel;
        break;
      case "stored":
        this.#store(event.parentHash, event.blocks, group);
        break;
      case "removed":
      case "cleared":
        for (const hash of event.hashes) this.#blocks.delete(keyOf(hash, group));
        break;
      case "updated": {
        const key = keyOf(event.hash, group);
        const block = this.#blocks.get(key);
        if (block === undefined) break;
        const level = event.level?.newValue ?? block.level;
        const priority = event.priority?.newValue ?? block.priority;
        this.#blocks.set(key, { ...block, level, priority });
        break;
      }
    }
  }

  #store(parentHash: bigint | null, blocks: readonly StoredBlock[], group: number): void {
    let parent = parentHash;
    for (const block of blocks) {
      const stored = { ...block, parentHash: parent, ...(group > 0 && { group }) };
      this.#blocks.set(keyOf(block.hash, group), stored);
      parent = block.hash;
    }
  }
}

/** Equal tokens have one hash in all groups of layers. */
type ContentKey = bigint | string;

function keyOf(hash: bigint, group = 0): ContentKey {
  return group === 0 ? hash : `${group} ${hash}`;
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
