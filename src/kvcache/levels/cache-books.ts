/**
 * The books of all levels together: what is stored where, what moves between levels, and what is
 * told about it. Every change of where contents are goes through here.
 */
import { assert, intAt } from "#base";
import {
  type BlockId,
  type BlockTable,
  blockId,
  type CacheLevel,
  ContentIndex,
  type KvEventDiff,
  type NodeId,
} from "#kvcache/contents";
import type { StoreObserver } from "#kvcache/events";
import { type BlockRetention, type EvictionPolicyName, timelessLease } from "#kvcache/eviction";
import type { BlockMove } from "./block-move.ts";
import { CacheTier } from "./cache-tier.ts";

/** How many blocks each level has, and what leaves them first. */
export interface BooksShape {
  readonly blocksPerLevel: readonly number[];
  readonly blockTokens: number;
  readonly evictionPolicy: EvictionPolicyName;
  /** Device blocks worth less are forgotten, not moved to host memory. */
  readonly offloadPriorityMin: number;
}

/** What happened in a level since the start; blocks. */
export interface TierStats {
  /** Contents that went to host memory, to make room or on their way to disk. */
  readonly offloaded: number;
  /** Cached contents that made room here, and that no other block had. */
  readonly forgotten: number;
  /** Cached contents that made room here, and that another block still has. */
  readonly dropped: number;
  /** Contents that continued what was forgotten, and went with it. */
  readonly orphaned: number;
  /** Contents that came back to the device from here, whole or in part. */
  readonly onboarded: number;
  /** Durations that ended. */
  readonly expired: number;
}

type Counters = { -readonly [key in keyof TierStats]: number };

/** Levels of blocks, the index over them, and the moves between them. */
export class CacheBooks {
  readonly index: ContentIndex;
  readonly device: CacheTier;
  readonly host: CacheTier | null;
  readonly disk: CacheTier | null;
  readonly observer: StoreObserver;
  readonly #tiers: readonly CacheTier[];
  readonly #offloadPriorityMin: number;
  readonly #counters: readonly Counters[];
  /** Host blocks that came from disk and were not used since: their first use is the disk's. */
  readonly #fromDisk = new Set<BlockId>();
  #moves: BlockMove[] = [];
  /** On the caller's clock, by `advance`. */
  #nowMs = 0;
  /** Hears of host blocks that just got contents, while they are held. */
  onOffloaded: ((host: BlockId, node: NodeId) => void) | null = null;
  /** Hears of disk blocks that are taken for other contents, or forgotten. */
  onDiskForgotten: ((disk: BlockId, node: NodeId) => void) | null = null;

  constructor(shape: BooksShape, observer: StoreObserver) {
    this.observer = observer;
    this.#offloadPriorityMin = shape.offloadPriorityMin;
    let first = 0;
    this.#tiers = shape.blocksPerLevel.map((blocks, level) => {
      const tier = this.#createTier(shape, level, first, blocks);
      first += blocks;
      return tier;
    });
    const [device, host, disk] = this.#tiers;
    assert(device !== undefined, "Cannot keep books without a device");
    this.device = device;
    this.host = host !== undefined && host.blocks > 0 ? host : null;
    this.disk = disk !== undefined && disk.blocks > 0 ? disk : null;
    this.#counters = this.#tiers.map(() => ({
      offloaded: 0,
      forgotten: 0,
      dropped: 0,
      orphaned: 0,
      onboarded: 0,
      expired: 0,
    }));
    this.index = new ContentIndex(
      { blocks: first, blockTokens: shape.blockTokens },
      (block) => this.levelOf(block),
      {
        stored: (node) => observer.stored(node),
        removed: (node) => this.#nodeRemoved(node),
        bestChanged: (node, from, to) => this.#bestChanged(node, from, to),
        uncovered: (block) => this.tierOf(block).uncovered(block),
      },
    );
    observer.watch(this.index, (block) => this.tierOf(block).priorityOf(block));
  }

  /** The time of the last `advance`. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** One level; null where there are fewer. */
  tier(level: CacheLevel): CacheTier | null {
    return this.#tiers[level] ?? null;
  }

  /** Where a block is. */
  levelOf(block: BlockId): CacheLevel {
    if (this.device.has(block)) return 0;
    return this.host?.has(block) ? 1 : 2;
  }

  /** The level that a block is in. */
  tierOf(block: BlockId): CacheTier {
    if (this.device.has(block)) return this.device;
    const tier = this.#tiers[this.levelOf(block)];
    assert(tier?.has(block) === true, "Cannot find a block: no level has it");
    return tier;
  }

  /** What happened in a level since the start. */
  stats(level: CacheLevel): TierStats {
    const counters = this.#counters[level];
    assert(counters !== undefined, "Cannot count in a level that does not exist");
    return { ...counters };
  }

  /** What must be copied, in order, before the next step computes. */
  takeMoves(): readonly BlockMove[] {
    const moves = this.#moves;
    this.#moves = [];
    return moves;
  }

  /** Queues a copy, behind all that were queued before. */
  move(move: BlockMove): void {
    this.#moves.push(move);
  }

  /** Time goes on: ends durations that are over. */
  advance(nowMs: number): void {
    this.#nowMs = nowMs;
    for (const tier of this.#tiers) {
      tier.expire(nowMs, (block, oldValue) => {
        this.#count(tier.level, "expired");
        this.#prioritised(block, { newValue: tier.priorityOf(block), oldValue });
      });
    }
  }

  /** One holder less. */
  release(block: BlockId): void {
    this.tierOf(block).release(block, this.#nowMs);
  }

  /** What the newest holder of a block says about it. */
  claim(block: BlockId, retention: BlockRetention): void {
    const change = this.tierOf(block).claim(block, retention);
    if (change !== null) this.#prioritised(block, change);
  }

  /** A held block, which nobody finds yet, has the contents of another one: it is worth as much. */
  inherit(block: BlockId, from: BlockId): void {
    const tier = this.tierOf(block);
    const lease = this.tierOf(from).leaseOf(from);
    tier.inherit(block, tier.level === 2 ? timelessLease(lease) : lease);
  }

  /** Has contents copied to a held block of the device. Neither block is found by this. */
  copy(from: BlockId, to: BlockId): void {
    const isNear = this.device.has(from);
    this.move({ kind: isNear ? "copy" : "onboard", from, to });
    if (!isNear) this.#count(1, "onboarded");
    this.inherit(to, from);
  }

  /** Has contents copied to a held host block, where they are found from now on, too. */
  copyToHost(from: BlockId, host: BlockId, node: NodeId): void {
    this.move({ kind: "offload", from, to: host });
    this.#count(0, "offloaded");
    this.inherit(host, from);
    this.index.attach(node, host);
    this.tierOf(host).publish(host);
  }

  /** A cached block is worth nothing, and goes next. */
  demote(block: BlockId): void {
    const tier = this.tierOf(block);
    const oldValue = tier.priorityOf(block);
    tier.demote(block);
    const newValue = tier.priorityOf(block);
    if (newValue !== oldValue) this.#prioritised(block, { newValue, oldValue });
  }

  /** Takes contents away from a block, and from all that continues them where it was the last. */
  forget(block: BlockId): void {
    const node = this.index.nodeOf(block);
    assert(node !== null, "Cannot forget a block that is not stored");
    this.#removeFromIndex(block, node, this.index.isOnlyBlock(block));
    this.tierOf(block).forget(block);
  }

  /** The same for all copies of contents. */
  forgetNode(node: NodeId): void {
    for (const block of [...this.index.blocksOf(node)]) this.forget(block);
  }

  /**
   * Contents of a held host block come to a held device block. The host block gives its contents up
   * unless somebody else holds it; the caller's hold of it ends here.
   */
  onboard(host: BlockId, device: BlockId): void {
    this.copy(host, device);
    const node = this.index.nodeOf(host);
    if (node !== null) {
      this.index.attach(node, device);
      this.device.publish(device);
    }
    this.giveUp(host);
  }

  /** Ends a hold of a host block whose contents are on the device, too: nobody else needs it. */
  giveUp(host: BlockId): void {
    this.release(host);
    const tier = this.tierOf(host);
    if (tier.holders(host) > 0 || !this.index.has(host)) return;
    this.index.remove(host);
    tier.forget(host);
  }

  /** A host block with one holder, for contents of any kind; null: none can make room. */
  takeHost(): BlockId | null {
    const block = this.host?.take() ?? null;
    if (block !== null) this.#fromDisk.delete(block);
    return block;
  }

  /** A host block has its contents from disk. */
  cameFromDisk(host: BlockId): void {
    this.#fromDisk.add(host);
  }

  /** Which level saved the work of computing a block, now that it is used. */
  hitLevel(block: BlockId): CacheLevel {
    return this.#fromDisk.size > 0 && this.#fromDisk.delete(block) ? 2 : this.levelOf(block);
  }

  /** Forgets everything, files on disk too; nobody may hold a block. */
  clear(): void {
    this.observer.cleared();
    this.#forgetFiles();
    this.index.clear();
    for (const tier of this.#tiers) tier.freeCached();
  }

  /**
   * Checks all levels against the tables there are and the blocks that jobs hold. Costs a scan; for
   * tests and bugs.
   */
  audit(tables: Iterable<BlockTable>, pinned: Iterable<BlockId>): void {
    const total = this.#tiers.reduce((sum, tier) => sum + tier.blocks, 0);
    const holders = new Int32Array(total);
    const hold = (block: number) => {
      holders[block] = intAt(holders, block) + 1;
    };
    for (const table of tables) {
      for (let index = 0; index < table.length; index++)
        if (table.holds(index)) hold(table.get(index));
    }
    for (const block of pinned) hold(block);
    for (const tier of this.#tiers) tier.audit(holders);
    for (let index = 0; index < total; index++) {
      const block = blockId(index);
      const stored = this.index.has(block);
      const published = this.tierOf(block).isPublished(block);
      assert(stored === published, `Block ${index} is not in the index, or should not be`);
    }
    this.index.audit();
  }

  #createTier(shape: BooksShape, level: number, first: number, blocks: number): CacheTier {
    const known: readonly CacheLevel[] = [0, 1, 2];
    const place = known[level];
    assert(place !== undefined, "Cannot keep books of more than three levels");
    return new CacheTier(
      { level: place, first, blocks, evictionPolicy: shape.evictionPolicy },
      (block) => this.index.isCovered(block),
      (block) => this.#evicted(block, place),
    );
  }

  /** A cached block was taken for other contents: what it has goes on, or is forgotten. */
  #evicted(block: BlockId, level: CacheLevel): void {
    const node = this.index.nodeOf(block);
    assert(node !== null, "Cannot evict a block that is not stored");
    const isOnly = this.index.isOnlyBlock(block);
    const mayMove = level === 0 && isOnly && this.host !== null;
    const moved = mayMove && this.#offload(block, node);
    // Making room there may have forgotten this block's contents, since it continued them.
    if (mayMove && this.index.nodeOf(block) === null) return;
    if (!moved) this.#count(level, isOnly ? "forgotten" : "dropped");
    this.#removeFromIndex(block, node, isOnly && !moved);
  }

  /** Takes a block out of the index, and all that continues it where it was its node's last. */
  #removeFromIndex(block: BlockId, node: NodeId, isOnly: boolean): void {
    if (isOnly) {
      if (this.index.hasChildren(node)) this.#forgetBelow(node);
    } else if (this.levelOf(block) === 2) this.onDiskForgotten?.(block, node);
    this.index.remove(block);
  }

  /** A block is worth something else: so are its contents, if it is their best copy. */
  #prioritised(block: BlockId, change: KvEventDiff): void {
    const node = this.index.nodeOf(block);
    if (node !== null && this.index.blockOf(node) === block) {
      this.observer.updated(node, null, change);
    }
  }

  #bestChanged(node: NodeId, from: BlockId, to: BlockId): void {
    const level = difference(this.levelOf(from), this.levelOf(to));
    const priority = difference(this.tierOf(from).priorityOf(from), this.tierOf(to).priorityOf(to));
    if (level !== null || priority !== null) this.observer.updated(node, level, priority);
  }

  /** Contents are about to go, with their last block. */
  #nodeRemoved(node: NodeId): void {
    if (this.onDiskForgotten !== null) {
      const last = this.index.blockOf(node);
      if (this.levelOf(last) === 2) this.onDiskForgotten(last, node);
    }
    this.observer.removed(node);
  }

  /** Copies what a device victim has to host memory; false: it is not worth it, or no room. */
  #offload(block: BlockId, node: NodeId): boolean {
    const { host } = this;
    if (host === null || this.device.priorityOf(block) < this.#offloadPriorityMin) return false;
    const copy = this.takeHost();
    if (copy === null) return false;
    if (this.index.nodeOf(block) === null) {
      this.release(copy);
      return false;
    }
    this.copyToHost(block, copy, node);
    this.onOffloaded?.(copy, node);
    this.release(copy);
    return true;
  }

  /** What continues contents that go can never be found again. */
  #forgetBelow(node: NodeId): void {
    this.index.removeBelow(node, (block) => {
      this.tierOf(block).forget(block);
      this.#count(this.levelOf(block), "orphaned");
    });
  }

  #forgetFiles(): void {
    if (this.onDiskForgotten === null) return;
    for (const node of this.index.tree.nodes()) {
      for (const block of this.index.blocksIn(node, 2)) this.onDiskForgotten(block, node);
    }
  }

  #count(level: CacheLevel, what: keyof TierStats): void {
    const counters = this.#counters[level];
    if (counters !== undefined) counters[what]++;
  }
}

/** Null where nothing changed. */
function difference<Value extends number>(
  oldValue: Value,
  newValue: Value,
): KvEventDiff<Value> | null {
  return oldValue === newValue ? null : { newValue, oldValue };
}
