import type { LevelBlockId } from "#kvcache/contents";
import { BlockQueues } from "./block-queues.ts";

/** An ordered set of blocks: one queue of `BlockQueues`. */
export class BlockList {
  readonly #queues: BlockQueues;

  /** An empty list that may hold the blocks 0 up to `blocks`. */
  constructor(blocks: number) {
    this.#queues = new BlockQueues(blocks, 1);
  }

  get count(): number {
    return this.#queues.count;
  }

  has(block: LevelBlockId): boolean {
    return this.#queues.has(block);
  }

  pushFront(block: LevelBlockId): void {
    this.#queues.pushFront(block, 0);
  }

  pushBack(block: LevelBlockId): void {
    this.#queues.pushBack(block, 0);
  }

  /** The first block, which stays; null from an empty list. */
  front(): LevelBlockId | null {
    return this.#queues.front(0);
  }

  /** Removes the first block; null from an empty list. */
  popFront(): LevelBlockId | null {
    const first = this.front();
    if (first !== null) this.remove(first);
    return first;
  }

  /** Removes a block; it must be in the list. */
  remove(block: LevelBlockId): void {
    this.#queues.remove(block);
  }

  /** Front to back. The list must not change meanwhile. */
  [Symbol.iterator](): Generator<LevelBlockId> {
    return this.#queues.blocksOf(0);
  }
}
