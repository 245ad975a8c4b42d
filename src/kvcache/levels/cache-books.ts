/**
 * The bookkeeping of all levels together: stored contents, moves between levels, and the events of
 * both. Every change of the level of contents goes through here.
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
import type { BooksListeners, DiskListener } from "./books-listeners.ts";
import { LevelBooks } from "./level-books.ts";
import { OccupationBook } from "./occupation-book.ts";

/** The number of blocks per level, and their eviction policy. */
export interface BooksShape {
  readonly blocksPerLevel: readonly number[];
  readonly blockTokens: number;
  readonly evictionPolicy: EvictionPolicyName;
  /** Device blocks of lower priority are forgotten on eviction, not moved to host memory. */
  readonly offloadPriorityMin: number;
  /** The time at any moment. Default: the time of the last `advance`. */
  readonly nowMs?: (() => number) | undefined;
}

/** What happened to a level's contents since the start; blocks. */
export interface ContentStats {
  /** Contents copied to host memory, on eviction or on their way to disk. */
  readonly offloaded: number;
  /** Cached contents evicted here that no other block had. */
  readonly forgotten: number;
  /** Cached contents evicted here that another block still has. */
  readonly dropped: number;
  /** Descendants of forgotten contents, forgotten with them. */
  readonly orphaned: number;
  /** Contents copied from here to the device, whole or in part. */
  readonly onboarded: number;
  /** Retention durations that ended. */
  readonly expired: number;
}

type Counted = { -readonly [key in keyof ContentStats]: number };

/** Levels of blocks, the index over them, and the moves between them. */
export class CacheBooks {
  readonly index: ContentIndex;
  readonly device: LevelBooks;
  readonly host: LevelBooks | null;
  readonly disk: LevelBooks | null;
  readonly observer: StoreObserver;
  readonly occupation: OccupationBook;
  readonly #diskListener: DiskListener;
  readonly #levels: readonly LevelBooks[];
  /** See `BooksShape`. */
  readonly offloadPriorityMin: number;
  readonly #stats: readonly Counted[];
  /** Host blocks read from disk and not used since: their first use counts as a hit of the disk. */
  readonly #fromDisk = new Set<BlockId>();
  #moves: BlockMove[] = [];
  /** On the caller's clock, by `advance`. */
  #nowMs = 0;

  constructor(shape: BooksShape, listeners: BooksListeners) {
    this.#diskListener = listeners.disk;
    this.offloadPriorityMin = shape.offloadPriorityMin;
    this.occupation = new OccupationBook(shape.nowMs ?? (() => this.#nowMs));
    let first = 0;
    this.#levels = shape.blocksPerLevel.map((blocks, level) => {
      const books = this.#createLevel(shape, level, first, blocks);
      first += blocks;
      return books;
    });
    const [device, host, disk] = this.#levels;
    assert(device !== undefined, "Cannot keep books without a device");
    this.device = device;
    this.host = host !== undefined && host.blocks > 0 ? host : null;
    this.disk = disk !== undefined && disk.blocks > 0 ? disk : null;
    this.#stats = this.#levels.map(() => ({
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
        stored: (node) => this.observer.stored(node),
        removed: (node) => this.#nodeRemoved(node),
        bestChanged: (node, from, to) => this.#bestChanged(node, from, to),
        uncovered: (block) => this.booksOf(block).uncovered(block),
      },
    );
    const priorityOf = (block: BlockId) => this.booksOf(block).priorityOf(block);
    this.observer = listeners.observer({ index: this.index, priorityOf });
  }

  /** The time of the last `advance`. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** One level's books; null where the cache does not have it. */
  booksAt(level: CacheLevel): LevelBooks | null {
    return this.#levels[level] ?? null;
  }

  /** The level of a block. */
  levelOf(block: BlockId): CacheLevel {
    if (this.device.has(block)) return 0;
    return this.host?.has(block) ? 1 : 2;
  }

  /** The books of a block's level. */
  booksOf(block: BlockId): LevelBooks {
    if (this.device.has(block)) return this.device;
    const books = this.#levels[this.levelOf(block)];
    assert(books?.has(block) === true, "Cannot find a block: no level has it");
    return books;
  }

  /** What happened to a level's contents since the start. */
  stats(level: CacheLevel): ContentStats {
    const stats = this.#stats[level];
    assert(stats !== undefined, "Cannot count in a level that does not exist");
    return { ...stats };
  }

  /** The copies to carry out, in order, before the next step computes. */
  takeMoves(): readonly BlockMove[] {
    const moves = this.#moves;
    this.#moves = [];
    return moves;
  }

  /** Queues a copy, behind all that were queued before. */
  move(move: BlockMove): void {
    this.#moves.push(move);
  }

  /** Sets the time and ends durations that are over. */
  advance(nowMs: number): void {
    this.#nowMs = nowMs;
    for (const books of this.#levels) {
      books.expire(nowMs, (block, oldValue) => {
        this.#count(books.level, "expired");
        this.#prioritised(block, { newValue: books.priorityOf(block), oldValue });
      });
    }
  }

  /** Removes a holder. */
  release(block: BlockId): void {
    this.booksOf(block).release(block, this.#nowMs);
  }

  /** Applies the retention of a block's newest holder. */
  claim(block: BlockId, retention: BlockRetention): void {
    const change = this.booksOf(block).claim(block, retention);
    if (change !== null) this.#prioritised(block, change);
  }

  /** A held, unpublished block gets the retention of the block whose contents it has. */
  inherit(block: BlockId, from: BlockId): void {
    const books = this.booksOf(block);
    const lease = this.booksOf(from).leaseOf(from);
    books.inherit(block, books.level === 2 ? timelessLease(lease) : lease);
  }

  /** Queues a copy of contents to a held device block. Does not change the index. */
  copy(from: BlockId, to: BlockId): void {
    const isNear = this.device.has(from);
    this.move({ kind: isNear ? "copy" : "onboard", from, to });
    if (!isNear) this.#count(1, "onboarded");
    this.inherit(to, from);
  }

  /** Queues a copy of contents to a held host block, and publishes that block. */
  copyToHost(from: BlockId, host: BlockId, node: NodeId): void {
    this.move({ kind: "offload", from, to: host });
    this.#count(0, "offloaded");
    this.inherit(host, from);
    this.index.attach(node, host);
    this.booksOf(host).publish(host);
  }

  /** Gives a cached block the lowest priority and makes it the next to be evicted. */
  demote(block: BlockId): void {
    const books = this.booksOf(block);
    const oldValue = books.priorityOf(block);
    books.demote(block);
    const newValue = books.priorityOf(block);
    if (newValue !== oldValue) this.#prioritised(block, { newValue, oldValue });
  }

  /** Forgets a block's contents, and their descendants where it was their last block. */
  forget(block: BlockId): void {
    const node = this.index.nodeOf(block);
    assert(node !== null, "Cannot forget a block that is not stored");
    this.#removeFromIndex(block, node, this.index.isOnlyBlock(block));
    this.booksOf(block).forget(block);
  }

  /** The same for all copies of contents. */
  forgetNode(node: NodeId): void {
    for (const block of [...this.index.blocksOf(node)]) this.forget(block);
  }

  /**
   * Copies the contents of a held host block to a held device block. Releases the host block, and
   * forgets it unless it has another holder.
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

  /**
   * Releases a host block whose contents are on the device, too, and forgets it if it is unheld
   * then.
   */
  giveUp(host: BlockId): void {
    this.release(host);
    const books = this.booksOf(host);
    if (books.holders(host) > 0 || !this.index.has(host)) return;
    this.index.remove(host);
    books.forget(host);
  }

  /** A host block with one holder, for contents of any kind; null: none is available. */
  takeHost(): BlockId | null {
    const block = this.host?.take() ?? null;
    if (block !== null) this.#fromDisk.delete(block);
    return block;
  }

  /** A host block was stored that came from elsewhere: it is written behind, as moved ones are. */
  cameToHost(host: BlockId, node: NodeId): void {
    if (this.disk !== null) this.#diskListener.offloaded(host, node);
  }

  /** Records that a host block was read from disk. */
  cameFromDisk(host: BlockId): void {
    this.#fromDisk.add(host);
  }

  /** The level that the hit of a block counts for: disk at the first use after a read. */
  hitLevel(block: BlockId): CacheLevel {
    return this.#fromDisk.size > 0 && this.#fromDisk.delete(block) ? 2 : this.levelOf(block);
  }

  /** Forgets everything, files on disk too; no block may be held. */
  clear(): void {
    this.observer.cleared();
    this.#forgetFiles();
    this.index.clear();
    for (const books of this.#levels) books.freeCached();
  }

  /**
   * Checks all levels against the tables there are and the blocks that jobs hold. Costs a scan; for
   * tests and bugs.
   */
  audit(tables: Iterable<BlockTable>, pinned: Iterable<BlockId>): void {
    const total = this.#levels.reduce((sum, books) => sum + books.blocks, 0);
    const holders = new Int32Array(total);
    const hold = (block: number) => {
      holders[block] = intAt(holders, block) + 1;
    };
    for (const table of tables) {
      for (let index = 0; index < table.length; index++)
        if (table.holds(index)) hold(table.get(index));
    }
    for (const block of pinned) hold(block);
    for (const books of this.#levels) books.audit(holders);
    for (let index = 0; index < total; index++) {
      const block = blockId(index);
      const stored = this.index.has(block);
      const published = this.booksOf(block).isPublished(block);
      assert(stored === published, `Block ${index} is not in the index, or should not be`);
    }
    this.index.audit();
  }

  #createLevel(shape: BooksShape, level: number, first: number, blocks: number): LevelBooks {
    const known: readonly CacheLevel[] = [0, 1, 2];
    const place = known[level];
    assert(place !== undefined, "Cannot keep books of more than three levels");
    return new LevelBooks(
      { level: place, first, blocks, evictionPolicy: shape.evictionPolicy },
      (block) => this.index.isCovered(block),
      (block) => this.#evicted(block, place),
    );
  }

  /** A cached block was taken for other contents: its contents are offloaded or forgotten. */
  #evicted(block: BlockId, level: CacheLevel): void {
    const node = this.index.nodeOf(block);
    assert(node !== null, "Cannot evict a block that is not stored");
    const isOnly = this.index.isOnlyBlock(block);
    const mayMove = level === 0 && isOnly && this.host !== null;
    const moved = mayMove && this.#offload(block, node);
    // The eviction there may have forgotten this block's contents as well, as a descendant.
    if (mayMove && this.index.nodeOf(block) === null) return;
    if (!moved) this.#count(level, isOnly ? "forgotten" : "dropped");
    this.#removeFromIndex(block, node, isOnly && !moved);
  }

  /** Removes a block from the index, and its descendants where it was its node's last. */
  #removeFromIndex(block: BlockId, node: NodeId, isOnly: boolean): void {
    if (isOnly) {
      if (this.index.hasChildren(node)) this.#forgetBelow(node);
    } else if (this.levelOf(block) === 2) this.#diskListener.forgotten(block, node);
    this.index.remove(block);
  }

  /** Emits a block's change of priority, if it is the best copy of its contents. */
  #prioritised(block: BlockId, change: KvEventDiff): void {
    const node = this.index.nodeOf(block);
    if (node !== null && this.index.blockOf(node) === block) {
      this.observer.updated(node, null, change);
    }
  }

  #bestChanged(node: NodeId, from: BlockId, to: BlockId): void {
    const level = difference(this.levelOf(from), this.levelOf(to));
    const priority = difference(
      this.booksOf(from).priorityOf(from),
      this.booksOf(to).priorityOf(to),
    );
    if (level !== null || priority !== null) this.observer.updated(node, level, priority);
  }

  /** Called before contents are removed with their last block. */
  #nodeRemoved(node: NodeId): void {
    if (this.disk !== null) {
      const last = this.index.blockOf(node);
      if (this.levelOf(last) === 2) this.#diskListener.forgotten(last, node);
    }
    this.observer.removed(node);
  }

  /** Copies a device victim's contents to host memory; false: priority too low, or no room. */
  #offload(block: BlockId, node: NodeId): boolean {
    const { host } = this;
    if (host === null || this.device.priorityOf(block) < this.offloadPriorityMin) return false;
    const copy = this.takeHost();
    if (copy === null) return false;
    if (this.index.nodeOf(block) === null) {
      this.release(copy);
      return false;
    }
    this.copyToHost(block, copy, node);
    if (this.disk !== null) this.#diskListener.offloaded(copy, node);
    this.release(copy);
    return true;
  }

  /** Forgets the descendants of removed contents: they can never be found again. */
  #forgetBelow(node: NodeId): void {
    this.index.removeBelow(node, (block) => {
      this.booksOf(block).forget(block);
      this.#count(this.levelOf(block), "orphaned");
    });
  }

  #forgetFiles(): void {
    if (this.disk === null) return;
    for (const node of this.index.tree.nodes()) {
      for (const block of this.index.blocksIn(node, 2)) this.#diskListener.forgotten(block, node);
    }
  }

  #count(level: CacheLevel, what: keyof ContentStats): void {
    const stats = this.#stats[level];
    if (stats !== undefined) stats[what]++;
  }
}

/** Null where nothing changed. */
function difference<Value extends number>(
  oldValue: Value,
  newValue: Value,
): KvEventDiff<Value> | null {
  return oldValue === newValue ? null : { newValue, oldValue };
}
