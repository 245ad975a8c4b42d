import { assert } from "#base";
import {
  type BlockId,
  type BlockTable,
  type CacheLevel,
  type GroupMatch,
  type LookUp,
  NO_MATCH,
  type NodeId,
  type PartialMatch,
  type PrefixMatch,
  placeOf,
} from "#kvcache/contents";
import type { CacheBooks } from "#kvcache/levels";

/** Settings of prefix reuse. */
export interface ReuseOptions {
  readonly blockTokens: number;
  /** Use the start of a stored block, too. */
  readonly partialReuse: boolean;
  /** Copy such a block where it is held or has children; off: only unheld leaves are used. */
  readonly copyOnPartialReuse: boolean;
}

/** Table indices from `from` up to `to`. */
export interface BlockRange {
  readonly from: number;
  readonly to: number;
}

/** Finds the stored prefix of a prompt, and adds its blocks to tables. */
export class PrefixReuse {
  readonly #books: CacheBooks;
  readonly #options: ReuseOptions;
  /** By level: tokens that tables took, since the start. */
  readonly #hitTokens: [number, number, number] = [0, 0, 0];
  /**
   * Host blocks onboarded in this step that other tables hold, too, and their device blocks: their
   * prefix may be forgotten meanwhile, and they with it.
   */
  readonly #broughtBack = new Map<BlockId, BlockId>();

  constructor(books: CacheBooks, options: ReuseOptions) {
    this.#books = books;
    this.#options = options;
  }

  /** Tokens that tables took from a level, partial matches included, since the start. */
  hitTokens(level: CacheLevel): number {
    return this.#hitTokens[level];
  }

  /** See `KvCache.match`: the prefix in the group of layers that the scope is for. */
  match(prompt: LookUp): PrefixMatch {
    const { blockTokens } = this.#options;
    const usable = prompt.tokens.length - 1;
    const blocks: BlockId[] = [];
    const onDisk: BlockId[] = [];
    let tip: NodeId | null = null;
    let parent: NodeId | null = null;
    for (let start = 0; start + blockTokens <= usable; start += blockTokens) {
      const node = this.#books.index.find(placeOf(prompt, parent, start, blockTokens));
      if (node === null) break;
      parent = node;
      const block = this.#books.index.blockOf(node);
      if (this.#books.levelOf(block) === 2) onDisk.push(block);
      // Nearer blocks behind one on disk count once that one is loaded.
      else if (onDisk.length === 0) {
        blocks.push(block);
        tip = node;
      }
    }
    const full = blocks.length * blockTokens;
    const partial = onDisk.length > 0 ? null : this.#partialMatch(prompt, tip, full);
    if (blocks.length === 0 && partial === null && onDisk.length === 0) return NO_MATCH;
    const tokens = full + (partial?.tokens ?? 0);
    return { blocks, tip, partial, tokens, onDisk, further: NO_MATCH.further };
  }

  /** See `KvCache.hold`. `unseen`: blocks of the match that its next query does not see. */
  hold(table: BlockTable, match: GroupMatch, unseen: BlockRange): void {
    assert(table.length === 0, "Cannot adopt a prefix into a table that has blocks");
    this.#broughtBack.clear();
    let index = 0;
    for (const block of match.blocks) {
      table.ids.push(block);
      if (index < unseen.from || index >= unseen.to) this.#books.booksOf(block).retain(block);
      index++;
    }
    if (match.blocks.length > 0 && unseen.to > unseen.from) {
      table.droppedFrom = unseen.from;
      table.droppedTo = unseen.to;
    }
    table.publishedBlocks = match.blocks.length;
    this.#books.index.setTip(table, match.tip);
    if (match.partial !== null) {
      this.#books.booksOf(match.partial.block).retain(match.partial.block);
    }
  }

  /** See `KvCache.settle`. `counts`: its tokens count as hits. */
  settle(table: BlockTable, match: GroupMatch, counts: boolean): void {
    for (let index = 0; index < match.blocks.length; index++) {
      if (!table.holds(index)) continue;
      const block = table.get(index);
      const level = this.#books.levelOf(block);
      if (counts) this.#hitTokens[this.#books.hitLevel(block)] += this.#options.blockTokens;
      const own = level === 0 ? block : this.#bringBack(block, index);
      table.ids.set(index, own);
    }
    if (match.partial === null) return;
    if (counts) {
      this.#hitTokens[this.#books.hitLevel(match.partial.block)] += match.partial.tokens;
    }
    this.#settlePartial(table, match.partial);
  }

  /** See `KvCache.extend`. */
  extend(table: BlockTable, prompt: LookUp, blocks: number): void {
    assert(table.publishedBlocks === table.length, "Cannot extend an unpublished prefix");
    const { blockTokens } = this.#options;
    while (table.length < blocks) {
      const place = placeOf(prompt, table.tip, table.length * blockTokens, blockTokens);
      const node = this.#books.index.find(place);
      assert(node !== null, "Cannot share a block that is not stored");
      const block = this.#books.index.blockOf(node);
      assert(this.#books.levelOf(block) === 0, "Cannot share a block that is being computed");
      this.#books.device.retain(block);
      table.ids.push(block);
      table.publishedBlocks++;
      this.#books.index.setTip(table, node);
    }
  }

  /** Whether the block can be taken over: it is unheld, and only its tail is lost. */
  #canTakeOver(block: BlockId, node: NodeId): boolean {
    const { index, device } = this.#books;
    return device.has(block) && device.holders(block) === 0 && !index.hasChildren(node);
  }

  #partialMatch(prompt: LookUp, tip: NodeId | null, start: number): PartialMatch | null {
    const { blockTokens, partialReuse, copyOnPartialReuse } = this.#options;
    const count = Math.min(blockTokens, prompt.tokens.length - 1 - start);
    if (!partialReuse || count <= 0) return null;
    const { index } = this.#books;
    const found = index.findPartial(placeOf(prompt, tip, start, count));
    if (found === null) return null;
    const block = index.blockOf(found.node);
    if (this.#books.levelOf(block) === 2) return null;
    const takeover = this.#canTakeOver(block, found.node);
    if (!takeover && !copyOnPartialReuse) return null;
    return { block, node: found.node, tokens: found.tokens, takeover };
  }

  #settlePartial(table: BlockTable, partial: PartialMatch): void {
    const { device, index } = this.#books;
    const { block } = partial;
    if (partial.takeover) {
      if (index.has(block)) this.#books.forget(block);
      table.ids.push(block);
      return;
    }
    const copy = device.take(table.length);
    assert(copy !== null, "A plan asked for more blocks than there are");
    this.#books.copy(block, copy);
    this.#books.release(block);
    table.ids.push(copy);
  }

  /** Replaces a held host block by a device block with its contents and one holder. */
  #bringBack(host: BlockId, index: number): BlockId {
    const { device } = this.#books;
    const node = this.#books.index.nodeOf(host);
    const best = node === null ? this.#broughtBack.get(host) : this.#books.index.blockOf(node);
    if (best !== undefined && device.has(best)) {
      // An earlier table of this step onboarded it.
      device.retain(best);
      this.#books.giveUp(host);
      return best;
    }
    const own = device.take(index);
    assert(own !== null, "A plan asked for more blocks than there are");
    this.#books.onboard(host, own);
    if (this.#books.booksOf(host).holders(host) > 0) this.#broughtBack.set(host, own);
    return own;
  }
}
