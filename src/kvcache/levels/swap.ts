import { assert } from "#base";
import type { BlockId, BlockTable } from "#kvcache/contents";
import type { CacheBooks } from "./cache-books.ts";

/** Moves whole tables to host memory and back, so that nothing has to be computed again. */
export class Swap {
  readonly #books: CacheBooks;
  #swappedOut = 0;
  #swappedIn = 0;

  constructor(books: CacheBooks) {
    this.#books = books;
  }

  /** Blocks swapped out, since the start. */
  get swappedOutBlocks(): number {
    return this.#swappedOut;
  }

  /** Blocks swapped in, since the start. */
  get swappedInBlocks(): number {
    return this.#swappedIn;
  }

  /** See `KvCache.swapBlocks`. */
  blocksOf(tables: readonly BlockTable[]): number {
    const blocks = new Set<number>();
    for (const table of tables) for (const index of heldPlaces(table)) blocks.add(table.get(index));
    return blocks.size;
  }

  /** See `KvCache.canSwapOut`. */
  canSwapOut(tables: readonly BlockTable[]): boolean {
    return this.blocksOf(tables) <= (this.#books.host?.availableCount ?? 0);
  }

  /** See `KvCache.swapOut`. */
  swapOut(tables: readonly BlockTable[]): boolean {
    const { host } = this.#books;
    const blocks = this.blocksOf(tables);
    if (blocks > (host?.availableCount ?? 0)) return false;
    for (const table of tables) assert(!table.swapped, "Cannot swap a table out twice");
    this.#replaceAll(tables, "offload", () => {
      const block = host?.take() ?? null;
      assert(block !== null, "Cannot take an available host block");
      return block;
    });
    this.#swappedOut += blocks;
    return true;
  }

  /** See `KvCache.swapIn`. */
  swapIn(tables: readonly BlockTable[]): boolean {
    const { device } = this.#books;
    const blocks = this.blocksOf(tables);
    if (blocks > device.availableCount) return false;
    for (const table of tables) assert(table.swapped, "Cannot swap in what is on the device");
    this.#replaceAll(tables, "onboard", (index) => {
      const block = device.take(index);
      assert(block !== null, "A plan asked for more blocks than there are");
      return block;
    });
    for (const table of tables) {
      // Its blocks are new ones: publishing them stores them beside the remaining old ones.
      table.publishedBlocks = 0;
      this.#books.index.setTip(table, null);
      table.broken = table.droppedTo > table.droppedFrom;
    }
    this.#swappedIn += blocks;
    return true;
  }

  /** Gives tables other blocks with the same contents; those that share a block share the new. */
  #replaceAll(
    tables: readonly BlockTable[],
    kind: "offload" | "onboard",
    take: (index: number) => BlockId,
  ): void {
    const places = new Map<BlockId, BlockId>();
    const left: BlockId[] = [];
    for (const table of tables) {
      for (const index of heldPlaces(table)) {
        const from = table.get(index);
        const known = places.get(from);
        const to = known ?? take(index);
        if (known === undefined) {
          places.set(from, to);
          this.#books.move({ kind, from, to });
          this.#books.inherit(to, from);
        } else {
          this.#books.booksOf(to).retain(to);
        }
        table.ids.set(index, to);
        left.push(from);
      }
      table.swapped = kind === "offload";
    }
    // Last, so that no block is allocated again in this call; tails first, as by `release`.
    for (const block of left.reverse()) this.#books.release(block);
  }
}

/** Indices of the blocks that a table holds. */
function* heldPlaces(table: BlockTable): Generator<number> {
  for (let index = 0; index < table.length; index++) if (table.holds(index)) yield index;
}
