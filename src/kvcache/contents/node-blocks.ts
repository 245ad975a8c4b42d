import { assert, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";

const NONE = -1;

// A block's record: its node, and its neighbours among that node's blocks.
const BLOCK_STRIDE = 3;
const NODE = 0;
const NEXT = 1;
/** Of a node's first block the last one, so that both ends are known. */
const PREVIOUS = 2;

/**
 * Which blocks have the contents of which node: a list per node, ordered by level, first come first
 * within a level. In typed arrays sized once; a list is entered from its end, and passes only the
 * blocks of levels behind the new one's, of which a node has few.
 */
export class NodeBlocks {
  readonly #levelOf: (block: BlockId) => number;
  readonly #first: Int32Array;
  readonly #blocks: Int32Array;

  /** For the blocks 0 up to `blocks`, and as many nodes. */
  constructor(blocks: number, levelOf: (block: BlockId) => number) {
    this.#levelOf = levelOf;
    this.#first = new Int32Array(blocks).fill(NONE);
    this.#blocks = new Int32Array(blocks * BLOCK_STRIDE).fill(NONE);
  }

  /** The node that lists a block; null of one that none does. */
  nodeOf(block: BlockId): number | null {
    const node = this.#get(block, NODE);
    return node === NONE ? null : node;
  }

  /** The first of a node's blocks, of which it must have one. */
  first(node: number): BlockId {
    const first = intAt(this.#first, node);
    assert(first !== NONE, "Cannot name the block of a node that is gone");
    return blockId(first);
  }

  /** Whether a node lists this block and no other. */
  isOnly(block: BlockId): boolean {
    const node = this.#get(block, NODE);
    return node !== NONE && this.#first[node] === block && this.#get(block, NEXT) === NONE;
  }

  /** Lists a block, which no node may list, behind those of its level. */
  add(node: number, block: BlockId): void {
    assert(this.#get(block, NODE) === NONE, "Cannot store a block in two places");
    this.#set(block, NODE, node);
    const first = intAt(this.#first, node);
    if (first === NONE) {
      this.#first[node] = block;
      this.#set(block, PREVIOUS, block);
      return;
    }
    const before = this.#lastBefore(first, this.#levelOf(block));
    const next = before === NONE ? first : this.#get(before, NEXT);
    const last = this.#get(first, PREVIOUS);
    if (before === NONE) this.#first[node] = block;
    else this.#set(before, NEXT, block);
    this.#set(block, PREVIOUS, before === NONE ? last : before);
    this.#set(block, NEXT, next);
    this.#set(next === NONE ? first : next, PREVIOUS, block);
  }

  /** Takes a block from the node that lists it. */
  remove(block: BlockId): void {
    const node = this.#get(block, NODE);
    assert(node !== NONE, "Cannot forget a block that is not stored");
    const first = intAt(this.#first, node);
    const next = this.#get(block, NEXT);
    const previous = this.#get(block, PREVIOUS);
    if (block === first) this.#first[node] = next;
    else this.#set(previous, NEXT, next);
    // The new last block is told to the first one: that is the next one where the first goes.
    if (next !== NONE) this.#set(next, PREVIOUS, previous);
    else if (block !== first) this.#set(first, PREVIOUS, previous);
    this.#set(block, NODE, NONE);
    this.#set(block, NEXT, NONE);
  }

  /** The blocks of a node, first to last. The list must not change meanwhile. */
  *of(node: number): Generator<BlockId> {
    let block = intAt(this.#first, node);
    while (block !== NONE) {
      yield blockId(block);
      block = this.#get(block, NEXT);
    }
  }

  /** Forgets all lists. Costs a pass over all blocks. */
  clear(): void {
    this.#first.fill(NONE);
    this.#blocks.fill(NONE);
  }

  /** The last block of this level or a better one; `NONE` where all are of levels behind it. */
  #lastBefore(first: number, level: number): number {
    let block = this.#get(first, PREVIOUS);
    while (this.#levelOf(blockId(block)) > level) {
      if (block === first) return NONE;
      block = this.#get(block, PREVIOUS);
    }
    return block;
  }

  #get(block: number, field: number): number {
    return intAt(this.#blocks, block * BLOCK_STRIDE + field);
  }

  #set(block: number, field: number, value: number): void {
    this.#blocks[block * BLOCK_STRIDE + field] = value;
  }
}
