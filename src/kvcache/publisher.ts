import type { IntList } from "#base";
import type { BlockId } from "./block-id.ts";
import type { BlockTable } from "./block-table.ts";
import type { CacheBooks } from "./cache-books.ts";
import { extraOf } from "./content-keys.ts";
import type { BlockPlace } from "./prefix-tree.ts";

/** The part of a sequence that was computed when it ended. */
export interface StoredTail {
  readonly tokens: IntList;
  /** Positions whose keys and values were written. */
  readonly computed: number;
}

/** Makes what tables hold known to others. */
export class Publisher {
  readonly #books: CacheBooks;
  readonly #blockTokens: number;

  constructor(books: CacheBooks, blockTokens: number) {
    this.#books = books;
    this.#blockTokens = blockTokens;
  }

  /** See `KvCache.publish`. */
  publish(table: BlockTable, tokens: IntList, filled: number): void {
    const full = Math.floor(filled / this.#blockTokens);
    while (table.publishedBlocks < full && this.#canGoOn(table)) {
      const place = this.#nextPlace(table, tokens, this.#blockTokens);
      const block = table.get(table.publishedBlocks);
      table.tip = this.#books.index.insert(place, block);
      this.#books.device.publish(block);
      table.publishedBlocks++;
    }
  }

  /** The partly filled last block, too, unless it is stored already, or somebody else's as well. */
  publishTail(table: BlockTable, { tokens, computed }: StoredTail): void {
    this.publish(table, tokens, computed);
    const index = table.publishedBlocks;
    const count = computed - index * this.#blockTokens;
    if (count <= 0 || count >= this.#blockTokens || !this.#canGoOn(table)) return;
    const block = table.get(index);
    const { device } = this.#books;
    if (!table.holds(index) || device.holders(block) > 1) return;
    const place = this.#nextPlace(table, tokens, count);
    if (this.#books.index.find(place) !== null) return;
    this.#books.index.insert(place, block);
    device.publish(block);
  }

  /** Whether what the table's next block continues can still be found. */
  #canGoOn(table: BlockTable): boolean {
    if (table.publishedBlocks > 0 && !table.broken) {
      const last: BlockId = table.get(table.publishedBlocks - 1);
      table.broken = this.#books.index.nodeOf(last) !== table.tip;
    }
    return !table.broken;
  }

  #nextPlace(table: BlockTable, tokens: IntList, count: number): BlockPlace {
    const start = table.publishedBlocks * this.#blockTokens;
    const extra = extraOf(table.keys, start, start + count);
    const { scope, tip: parent } = table;
    return { scope, parent, tokens: tokens.view(), start, count, extra };
  }
}
