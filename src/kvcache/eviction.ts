import type { BlockId } from "./block-id.ts";
import { BlockList } from "./block-list.ts";

/** Orders the blocks that nobody holds but whose contents may be asked for again. */
export interface EvictionPolicy {
  readonly count: number;
  /** The block lost its last holder just now. */
  add(block: BlockId): void;
  /** The block is held again, or was forgotten. It must be here. */
  remove(block: BlockId): void;
  /** Which block to forget next; it stays until removed. null when there is none. */
  victim(): BlockId | null;
}

/**
 * Least recently released first. Tables give blocks back tail first, so of one sequence the tail
 * goes before the head that others may share.
 */
export class LruEviction implements EvictionPolicy {
  readonly #order: BlockList;

  constructor(blocks: number) {
    this.#order = new BlockList(blocks);
  }

  get count(): number {
    return this.#order.count;
  }

  add(block: BlockId): void {
    this.#order.pushBack(block);
  }

  remove(block: BlockId): void {
    this.#order.remove(block);
  }

  victim(): BlockId | null {
    return this.#order.front();
  }
}
