import { type LookUp, type NodeId, placeOf } from "#kvcache/contents";
import type { CacheBooks } from "./cache-books.ts";

/** Follows a prompt's stored full blocks in one group of layers, from the first one on. */
export class StoredChain {
  readonly #books: CacheBooks;
  readonly #prompt: LookUp;
  readonly #blockTokens: number;
  #tip: NodeId | null = null;
  #serial = 0;
  #blocks = 0;

  constructor(books: CacheBooks, prompt: LookUp, blockTokens: number) {
    this.#books = books;
    this.#prompt = prompt;
    this.#blockTokens = blockTokens;
  }

  /** Blocks that were followed. */
  get blocks(): number {
    return this.#blocks;
  }

  /** Where the next block belongs; null: what was followed is not stored any more. */
  get nextPlace(): ReturnType<typeof placeOf> | null {
    const tip = this.#tip;
    if (tip !== null && this.#books.index.serialOf(tip) !== this.#serial) return null;
    return placeOf(this.#prompt, tip, this.#blocks * this.#blockTokens, this.#blockTokens);
  }

  /** The next block, where it is stored. */
  next(): NodeId | null {
    const place = this.nextPlace;
    return place === null ? null : this.#books.index.find(place);
  }

  /** Goes on behind the next block. */
  follow(node: NodeId): void {
    this.#tip = node;
    this.#serial = this.#books.index.serialOf(node);
    this.#blocks++;
  }
}
