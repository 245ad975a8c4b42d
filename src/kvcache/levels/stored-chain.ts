import { type LookUp, type NodeId, placeOf } from "#kvcache/contents";
import type { CacheBooks } from "./cache-books.ts";

/**
 * Follows a prompt's stored blocks in one group of layers, from the first one on. The last block
 * has the tokens that are left: contents that begin with these will do.
 */
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

  /** Tokens of the next block; 0: there is none. */
  get nextTokens(): number {
    const left = this.#prompt.tokens.length - this.#blocks * this.#blockTokens;
    return Math.max(0, Math.min(this.#blockTokens, left));
  }

  /**
   * Where the next block belongs; null: there is none, or what was followed is not stored any more.
   */
  get nextPlace(): ReturnType<typeof placeOf> | null {
    const tip = this.#tip;
    if (tip !== null && this.#books.index.serialOf(tip) !== this.#serial) return null;
    const count = this.nextTokens;
    if (count === 0) return null;
    return placeOf(this.#prompt, tip, this.#blocks * this.#blockTokens, count);
  }

  /** The next block, where it is stored. */
  next(): NodeId | null {
    const place = this.nextPlace;
    if (place === null) return null;
    const { index } = this.#books;
    const count = this.nextTokens;
    if (count === this.#blockTokens) return index.find(place);
    const found = index.findPartial(place);
    return found !== null && found.tokens >= count ? found.node : null;
  }

  /** Goes on behind the next block. */
  follow(node: NodeId): void {
    this.#tip = node;
    this.#serial = this.#books.index.serialOf(node);
    this.#blocks++;
  }
}
