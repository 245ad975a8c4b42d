/** Events to test readers with, and a cache that makes up a history of its own. */
import type { CacheLevel } from "../../src/kvcache/contents/cache-level.ts";
import type {
  KvEvent,
  KvSnapshot,
  SnapshotBlock,
  StoredBlock,
} from "../../src/kvcache/events/kv-event.ts";

/** Contents of four tokens, or of those given, in device memory. */
export function storedBlock(hash: bigint, changes: Partial<StoredBlock> = {}): StoredBlock {
  return {
    hash,
    tokenIds: [1, 2, 3, 4],
    level: 0,
    priority: 35,
    multimodalKeys: [],
    loraId: null,
    cacheSalt: null,
    ...changes,
  };
}

/** A run of such blocks below `parentHash`. */
export function stored(parentHash: bigint | null, ...hashes: readonly bigint[]): KvEvent {
  return { type: "stored", parentHash, blocks: hashes.map((hash) => storedBlock(hash)) };
}

export function removed(...hashes: readonly bigint[]): KvEvent {
  return { type: "removed", hashes };
}

const PRIORITIES = [0, 35, 80, 100];

/**
 * A tree that grows, shrinks, moves and is cleared at random, as a cache's does: the truth that
 * readers of its events must arrive at. Equal seeds make equal histories.
 */
export class RandomHistory {
  readonly blocksPerLevel: readonly number[] = [64, 32, 16];
  readonly #emit: (event: KvEvent) => void;
  readonly #blocks = new Map<bigint, SnapshotBlock>();
  readonly #blockTokens: number;
  readonly #children = new Map<bigint, readonly bigint[]>();
  /** Those of `#blocks`, to choose from, and some that are gone. */
  #hashes: bigint[] = [];
  #state: number;
  #nextHash = 1n;

  constructor(seed: number, emit: (event: KvEvent) => void, blockTokens = 4) {
    this.#state = seed;
    this.#emit = emit;
    this.#blockTokens = blockTokens;
  }

  get size(): number {
    return this.#blocks.size;
  }

  /** One random operation. */
  step(): void {
    const kind = this.#below(20);
    if (kind === 0 && this.#below(40) === 0) this.#clear();
    else if (kind < 9 || this.#blocks.size === 0) this.#store();
    else if (kind < 14 && this.#blocks.size > 50) this.#remove();
    else this.#update();
  }

  snapshot(nextId: number): KvSnapshot {
    // Parents come first: a child is always stored after its parent.
    return { nextId, blocksPerLevel: this.blocksPerLevel, blocks: [...this.#blocks.values()] };
  }

  #store(): void {
    const any = this.#below(4) === 0 || this.size === 0 ? null : this.#any();
    // Nothing continues a tail.
    const top = any?.tokenIds.length === this.#blockTokens ? any : null;
    const parentHash = top?.hash ?? null;
    const blocks = Array.from({ length: 1 + this.#below(4) }, (_, place) => {
      const tokens = place === 3 && this.#below(4) === 0 ? 1 : this.#blockTokens;
      const tokenIds = Array.from({ length: tokens }, () => this.#below(2 ** 17));
      return storedBlock(this.#freshHash(), { tokenIds, priority: this.#priority() });
    });
    let parent = parentHash;
    for (const block of blocks) {
      this.#blocks.set(block.hash, { ...block, parentHash: parent });
      this.#hashes.push(block.hash);
      if (parent !== null) this.#children.set(parent, [...this.#childrenOf(parent), block.hash]);
      parent = block.hash;
    }
    this.#emit({ type: "stored", parentHash, blocks });
  }

  /** A content, and all that continue it. */
  #remove(): void {
    const doomed = [this.#any().hash];
    for (const hash of doomed) {
      this.#blocks.delete(hash);
      doomed.push(...this.#childrenOf(hash).filter((child) => this.#blocks.has(child)));
      this.#children.delete(hash);
    }
    this.#emit({ type: "removed", hashes: doomed });
  }

  #update(): void {
    const block = this.#any();
    const level = this.#below(3) as CacheLevel; // below 3
    const priority = this.#priority();
    this.#blocks.set(block.hash, { ...block, level, priority });
    this.#emit({
      type: "updated",
      hash: block.hash,
      level: level === block.level ? null : { newValue: level, oldValue: block.level },
      priority:
        priority === block.priority ? null : { newValue: priority, oldValue: block.priority },
    });
  }

  #clear(): void {
    this.#emit({ type: "cleared", hashes: [...this.#blocks.keys()] });
    this.#blocks.clear();
    this.#children.clear();
    this.#hashes = [];
  }

  #childrenOf(hash: bigint): readonly bigint[] {
    return this.#children.get(hash) ?? [];
  }

  #any(): SnapshotBlock {
    for (;;) {
      const place = this.#below(this.#hashes.length);
      const block = this.#blocks.get(this.#hashes[place] ?? -1n);
      if (block !== undefined) return block;
      // Removed long ago: only now it leaves the list.
      const last = this.#hashes.pop();
      if (last === undefined) throw new Error("There is no block");
      if (place < this.#hashes.length) this.#hashes[place] = last;
    }
  }

  #priority(): number {
    return PRIORITIES[this.#below(PRIORITIES.length)] ?? 0;
  }

  /** Anywhere in 64 bits, never the same twice. */
  #freshHash(): bigint {
    return (this.#nextHash++ * 0x9e3779b97f4a7c15n) % 2n ** 64n;
  }

  /** A whole number from 0 up to `limit`. */
  #below(limit: number): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) >>> 0;
    return Math.floor((this.#state / 2 ** 32) * limit);
  }
}
