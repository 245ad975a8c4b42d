import { assert } from "#base";
import { type BlockTable, blockId } from "#kvcache/contents";
import type { CacheBooks } from "#kvcache/levels";
import { type CacheWindow, unseenBlocks } from "./cache-shape.ts";
import type { BlockRange } from "./prefix-reuse.ts";

/** Settings of `TableBlocks`. */
export interface TableBlocksOptions {
  readonly blockTokens: number;
  /** By group of layers: the attention window; null: queries see everything. */
  readonly windows: readonly (CacheWindow | null)[];
}

/** Changes which blocks a table holds, in all groups of layers at once. */
export class TableBlocks {
  readonly #books: CacheBooks;
  readonly #options: TableBlocksOptions;
  #copiedBlocks = 0;

  constructor(books: CacheBooks, options: TableBlocksOptions) {
    this.#books = books;
    this.#options = options;
  }

  /** Blocks that `makeWritable` copied, since the start. */
  get copiedBlocks(): number {
    return this.#copiedBlocks;
  }

  /** The parts of a table; an empty one gets a part for each group. */
  partsOf(table: BlockTable): readonly BlockTable[] {
    const { length } = this.#options.windows;
    if (table.parts.length !== length) table.divide(length);
    return table.parts;
  }

  /** See `KvCache.allocate`. */
  allocate(table: BlockTable, count: number): boolean {
    const { device } = this.#books;
    const groups = this.#options.windows.length;
    if (count * groups > device.availableCount) return false;
    for (const part of this.partsOf(table)) {
      const allocated = device.allocate(count, part.ids);
      assert(allocated, "Cannot allocate available blocks");
    }
    this.#books.occupation.noteTable(table);
    return true;
  }

  /** See `KvCache.fork`. */
  fork(parent: BlockTable, child: BlockTable): void {
    assert(child.length === 0, "Cannot fork into a table that has blocks");
    assert(child.scope === parent.scope, "Cannot fork into another scope");
    const parts = this.partsOf(child);
    for (const [group, source] of parent.parts.entries()) {
      const part = parts[group] ?? child;
      for (let index = 0; index < source.length; index++) {
        const block = source.get(index);
        if (source.holds(index)) this.#books.booksOf(block).retain(block);
        part.ids.push(block);
      }
      part.follow(source);
    }
    this.#books.occupation.noteTable(child);
  }

  /** See `KvCache.makeWritable`. */
  makeWritable(table: BlockTable, position: number): boolean {
    const index = Math.floor(position / this.#options.blockTokens);
    if (index >= table.length) return true;
    const { device } = this.#books;
    const parts = table.parts.filter((part) => this.#isShared(part, index));
    if (parts.length > device.availableCount) return false;
    for (const part of parts) {
      const shared = part.get(index);
      const copy = device.take(index);
      assert(copy !== null, "Cannot take an available block");
      this.#books.copy(shared, copy);
      this.#books.release(shared);
      part.ids.set(index, copy);
      this.#copiedBlocks++;
    }
    return true;
  }

  /** See `KvCache.dropLeading`. */
  dropLeading(table: BlockTable, position: number): void {
    for (const [group, part] of table.parts.entries()) {
      const { from, to } = this.unseen(position, group);
      const end = Math.min(to, part.length);
      const start = Math.max(from, part.droppedTo);
      for (let index = start; index < end; index++) this.#books.release(part.get(index));
      if (end <= start) continue;
      part.droppedFrom = from;
      part.droppedTo = end;
    }
    this.#books.occupation.noteTable(table);
  }

  /** See `KvCache.unseenBlocks`. */
  unseen(position: number, group: number): BlockRange {
    const { windows, blockTokens } = this.#options;
    return unseenBlocks(windows[group] ?? null, blockTokens, position);
  }

  /** See `KvCache.shrink`. */
  shrink(table: BlockTable, blocks: number): void {
    for (const part of table.parts) {
      assert(part.publishedBlocks <= blocks, "Cannot take a published block back");
      while (part.length > blocks) this.#books.release(blockId(part.ids.pop()));
    }
    this.#books.occupation.noteTable(table);
  }

  /** Releases all blocks of one part, the last first, and empties it. */
  empty(part: BlockTable): void {
    while (part.length > 0) {
      const held = part.holds(part.length - 1);
      const block = blockId(part.ids.pop());
      if (held) this.#books.release(block);
    }
    part.reset();
  }

  /** Whether another table holds the block of a part, too. */
  #isShared(part: BlockTable, index: number): boolean {
    const block = part.get(index);
    return part.holds(index) && this.#books.booksOf(block).holders(block) > 1;
  }
}

/** The tables of all groups. */
export function allParts(tables: readonly BlockTable[]): readonly BlockTable[] {
  return tables.every(({ parts }) => parts.length === 1)
    ? tables
    : tables.flatMap(({ parts }) => parts);
}
