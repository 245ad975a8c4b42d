import { assert, type IntList } from "#base";
import { type BlockPlace, type BlockTable, extraOf, nodeId } from "#kvcache/contents";
import type { CacheBooks } from "#kvcache/levels";

/** A sequence's tokens: a list with views of its ranges. */
export interface TokenSource {
  readonly length: number;
  /** Tokens from `start` up to `end`; valid until the list changes. */
  view(start: number, end: number): Int32Array;
}

/** The part of a sequence that was computed when it ended. */
export interface StoredTail {
  readonly tokens: TokenSource;
  /** Positions whose keys and values were written. */
  readonly computed: number;
}

/** Integers per published block in a log: its node in the index, and the node's serial. */
const LOG_STRIDE = 2;

/** Publishes the blocks of tables, so that other sequences find them. */
export class Publisher {
  readonly #books: CacheBooks;
  readonly #blockTokens: number;

  constructor(books: CacheBooks, blockTokens: number) {
    this.#books = books;
    this.#blockTokens = blockTokens;
  }

  /** See `KvCache.publish`. */
  publish(table: BlockTable, { tokens, computed }: StoredTail, log: IntList | null): void {
    assert(!table.swapped, "Cannot publish what is not on the device");
    const { index, device } = this.#books;
    const full = Math.floor(computed / this.#blockTokens);
    while (table.publishedBlocks < full && this.#canGoOn(table)) {
      const block = table.get(table.publishedBlocks);
      const known = index.nodeOf(block);
      const node = known ?? index.insert(this.#nextPlace(table, tokens, this.#blockTokens), block);
      index.setTip(table, node);
      table.publishedBlocks++;
      // Tables swapped in together share blocks that none of them had published.
      if (known !== null) continue;
      device.publish(block);
      log?.push(node);
      log?.push(index.serialOf(node));
    }
  }

  /**
   * Publishes the partly filled last block, too, unless equal contents are stored or it is shared.
   */
  publishTail(table: BlockTable, tail: StoredTail): void {
    this.publish(table, tail, null);
    const { index, device } = this.#books;
    const at = table.publishedBlocks;
    const count = tail.computed - at * this.#blockTokens;
    if (count <= 0 || count >= this.#blockTokens || !this.#canGoOn(table)) return;
    const block = table.get(at);
    if (device.holders(block) > 1) return;
    const place = this.#nextPlace(table, tail.tokens, count);
    if (index.find(place) !== null) return;
    index.insert(place, block);
    device.publish(block);
  }

  /** See `KvCache.forgetPublished`. */
  forget(log: IntList): void {
    const { index } = this.#books;
    assert(log.length % LOG_STRIDE === 0, "Cannot read half of a log's entry");
    for (let at = log.length - LOG_STRIDE; at >= 0; at -= LOG_STRIDE) {
      const node = nodeId(log.get(at));
      if (index.serialOf(node) === log.get(at + 1)) this.#books.forgetNode(node);
    }
  }

  /** Whether the table holds a next block, and its prefix can still be found. */
  #canGoOn(table: BlockTable): boolean {
    table.broken ||= !this.#books.index.hasTip(table) || !table.holds(table.publishedBlocks);
    return !table.broken;
  }

  #nextPlace(table: BlockTable, source: TokenSource, count: number): BlockPlace {
    const { scope, keys, tip: parent, publishedBlocks } = table;
    const start = publishedBlocks * this.#blockTokens;
    const tokens = source.view(start, start + count);
    const extra = extraOf(keys, start, start + count);
    return { scope, parent, tokens, start: 0, count, extra };
  }
}
