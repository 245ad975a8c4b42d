import type { BlockId, NodeId } from "#kvcache/contents";
import type { CacheBooks } from "./cache-books.ts";
import { planFlush, type Wanted } from "./flush-plan.ts";

/** Blocks of a flush; those that are on disk already, or on their way there, do not count. */
export interface FlushCounts {
  /** On disk now. */
  readonly written: number;
  /** Not written: what is on disk is worth as much, or host memory has no block to pass through. */
  readonly noRoom: number;
  /** Not written: the disk refused them, or the blocks before them. */
  readonly failed: number;
  /** Not begun. */
  readonly left: number;
}

/** What a flush asks of the books of the disk. */
export interface FlushWriter {
  /** Whether contents are on disk, or on their way there. */
  isWritten(node: NodeId): boolean;
  /** The disk block that contents are being written to; null: there is no room for them. */
  write(node: NodeId): BlockId | null;
}

/**
 * Blocks on their way through host memory at a time: the disk has work while the device copies, and
 * little is under way when the time is over.
 */
const UNDER_WAY_MAX = 8;

/**
 * Writes full blocks of the device and of host memory to disk, the most valuable first, and each
 * behind the blocks that it continues. Nothing else may change the cache meanwhile. What it has
 * written, or found on disk, stays held until `end`, so that it never evicts what it was to keep.
 */
export class DiskFlush {
  readonly #books: CacheBooks;
  readonly #writer: FlushWriter;
  readonly #plan: readonly Wanted[];
  /** On disk, the most valuable first. */
  readonly #kept: BlockId[] = [];
  /** Host blocks of planned contents, which would be lost if others took them. */
  readonly #waiting = new Map<NodeId, BlockId>();
  readonly #underWay = new Set<BlockId>();
  #next = 0;
  #written = 0;
  #noRoom = 0;
  #failed = 0;

  constructor(books: CacheBooks, writer: FlushWriter) {
    this.#books = books;
    this.#writer = writer;
    this.#plan = planFlush(books, (node) => writer.isWritten(node));
    this.#holdWaiting();
  }

  /** Writes that have not ended. */
  get underWay(): number {
    return this.#underWay.size;
  }

  /** Counts so far. */
  get counts(): FlushCounts {
    let left = 0;
    for (const { isNew } of this.#plan.slice(this.#next)) if (isNew) left++;
    return {
      ...{ written: this.#written, noRoom: this.#noRoom, failed: this.#failed },
      left: left + this.#underWay.size,
    };
  }

  /** Blocks that it holds. */
  *held(): Iterable<BlockId> {
    yield* this.#kept;
    yield* this.#waiting.values();
  }

  /**
   * Decides on further writes, as many as there may be under way. With none under way afterwards
   * the flush is complete.
   */
  writeSome(): void {
    for (; this.#underWay.size < UNDER_WAY_MAX; this.#next++) {
      const wanted = this.#plan[this.#next];
      if (wanted === undefined) return;
      // Writes that end free the host memory that the next ones pass through.
      if (this.#underWay.size > 0 && this.#needsHost(wanted)) return;
      if (this.#write(wanted)) continue;
      for (const { isNew } of this.#plan.slice(this.#next)) if (isNew) this.#noRoom++;
      this.#next = this.#plan.length;
    }
  }

  /** A write ended, before its block is released; `ok`: the contents are on disk. */
  ended(disk: BlockId, ok: boolean): void {
    if (!this.#underWay.delete(disk)) return;
    if (!ok) this.#failed++;
    else {
      this.#written++;
      this.#keep(disk);
    }
  }

  /** Holds nothing more; the most valuable are the last to be evicted. */
  end(): void {
    for (const block of this.#kept.splice(0).toReversed()) this.#books.release(block);
    for (const block of this.#waiting.values()) this.#books.release(block);
    this.#waiting.clear();
  }

  /** False: there is no room, nor will there be for what is worth less. */
  #write(wanted: Wanted): boolean {
    const { node, serial, isNew } = wanted;
    const { index } = this.#books;
    const isThere = index.serialOf(node) === serial;
    if (isThere) for (const block of index.blocksIn(node, 2)) this.#keep(block);
    if (!isNew || (isThere && this.#writer.isWritten(node))) {
      this.#release(node);
      return true;
    }
    if (!isThere) return this.#forgotten(node);
    const parent = index.tree.parentOf(node);
    if (parent !== null && !this.#writer.isWritten(parent)) {
      this.#failed++;
      this.#release(node);
      return true;
    }
    if (!this.#hasRoom(wanted)) return false;
    const disk = this.#writer.write(node);
    if (disk === null) return index.serialOf(node) !== serial && this.#forgotten(node);
    this.#release(node);
    this.#underWay.add(disk);
    return true;
  }

  /** Room was made of it: its block in host memory, or one before it, was worth least. */
  #forgotten(node: NodeId): true {
    this.#noRoom++;
    this.#release(node);
    return true;
  }

  /** Whether the disk has a block that is worth less. */
  #hasRoom({ priority }: Wanted): boolean {
    const { disk } = this.#books;
    if (disk === null || disk.availableCount === 0) return false;
    const victim = disk.usesPriorities ? disk.nextVictim() : null;
    return victim === null || disk.priorityOf(victim) <= priority;
  }

  #needsHost({ node, isNew }: Wanted): boolean {
    return isNew && !this.#waiting.has(node) && this.#books.host?.availableCount === 0;
  }

  #keep(disk: BlockId): void {
    this.#books.booksOf(disk).pin(disk);
    this.#kept.push(disk);
  }

  /** The planned blocks of host memory, except that there is room to pass through. */
  #holdWaiting(): void {
    const { index, host } = this.#books;
    for (const { node, isNew } of this.#plan) {
      if (host === null || host.availableCount <= UNDER_WAY_MAX) return;
      if (!isNew || this.#books.levelOf(index.blockOf(node)) !== 1) continue;
      const block = index.blockOf(node);
      host.pin(block);
      this.#waiting.set(node, block);
    }
  }

  #release(node: NodeId): void {
    const block = this.#waiting.get(node);
    if (block === undefined) return;
    this.#waiting.delete(node);
    this.#books.release(block);
  }
}
