import { assert } from "#base";
import type { LevelBlockId } from "#kvcache/contents";
import { BlockQueues } from "./block-queues.ts";
import type { EvictionPolicy } from "./eviction.ts";
import { checkPriority, PRIORITY_DEFAULT } from "./retention.ts";

/** Queue of a block that is set aside: this plus its priority, so behind all that are not. */
const ASIDE = 128;

/**
 * Lowest priority first, among equals the least recently released: a queue per priority, and the
 * same cost per operation at any number of blocks. A block is passed over while it is covered, that
 * is while it is the only one of a prefix with children: leaves are evicted first, whatever their
 * priority. It is set aside when its turn comes, and returns to the front of its queue when it is
 * uncovered, so each block is set aside at most once per release, and nothing is scanned. Where
 * only covered blocks are left, they are evicted in the same order.
 */
export class PriorityEviction implements EvictionPolicy {
  readonly #isCovered: (block: LevelBlockId) => boolean;
  /** 0 to 100 for blocks by priority, the same behind `ASIDE` for those set aside. */
  readonly #queues: BlockQueues;
  /** By block: the queue that it is in, or goes to when it is released. */
  readonly #queue: Uint8Array;

  /** With an `isCovered` that is always false, blocks may be evicted before their children. */
  constructor(blocks: number, isCovered: (block: LevelBlockId) => boolean) {
    this.#isCovered = isCovered;
    this.#queues = new BlockQueues(blocks, 2 * ASIDE);
    this.#queue = new Uint8Array(blocks).fill(PRIORITY_DEFAULT);
  }

  get count(): number {
    return this.#queues.count;
  }

  add(block: LevelBlockId): void {
    this.#queues.pushBack(block, this.#queueOf(block));
  }

  addFirst(block: LevelBlockId): void {
    this.#queues.pushFront(block, this.#queueOf(block));
  }

  remove(block: LevelBlockId): void {
    this.#queues.remove(block);
    const queue = this.#queueOf(block);
    if (queue >= ASIDE) this.#queue[block] = queue - ASIDE;
  }

  victim(): LevelBlockId | null {
    for (let first = this.#queues.first(); first !== null; first = this.#queues.first()) {
      const queue = this.#queueOf(first);
      if (queue >= ASIDE || !this.#isCovered(first)) return first;
      this.#queues.remove(first);
      this.#queue[first] = queue + ASIDE;
      this.#queues.pushBack(first, queue + ASIDE);
    }
    return null;
  }

  inOrder(): LevelBlockId[] {
    const order: LevelBlockId[] = [];
    for (let priority = 0; priority < ASIDE; priority++) {
      // Those set aside were before the others of their priority.
      for (const queue of [priority + ASIDE, priority]) {
        for (const block of this.#queues.blocksOf(queue)) order.push(block);
      }
    }
    return order;
  }

  taken(block: LevelBlockId): void {
    assert(!this.#queues.has(block), "Cannot hand out a block that is still cached");
    this.#queue[block] = PRIORITY_DEFAULT;
  }

  prioritise(block: LevelBlockId, priority: number): void {
    checkPriority(priority);
    if (this.#queueOf(block) % ASIDE === priority) return;
    const isCached = this.#queues.has(block);
    if (isCached) this.#queues.remove(block);
    this.#queue[block] = priority;
    if (isCached) this.#queues.pushBack(block, priority);
  }

  uncovered(block: LevelBlockId): void {
    if (this.#queueOf(block) < ASIDE) return;
    this.remove(block);
    this.addFirst(block);
  }

  #queueOf(block: LevelBlockId): number {
    return this.#queue[block] ?? PRIORITY_DEFAULT;
  }
}
