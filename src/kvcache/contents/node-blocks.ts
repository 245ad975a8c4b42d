import { assert, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";

const NONE = -1;

// A block's record: its node, and its neighbours among that node's blocks.
const BLOCK_STRIDE = 3;
const NODE = 0;
const NEXT = 1;
/** In a node's first block: the node's last block, so that both ends are known. */
const PREVIOUS = 2;

/**
 * The blocks that store each node's contents: a list per node, ordered by level, then by insertion.
 * In typed arrays sized once; an insertion walks from the list's end and passes only blocks of
 * farther levels, of which a node has few.
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

  /** The node that lists a block; null if none does. */
  nodeOf(block: BlockId): number | null {
    const node = this.#get(block, NODE);
    return node === NONE ? null : node;
  }

  /** The first of a node's blocks; it must have one. */
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

  /** Lists a block, so far unlisted, behind those of its level. */
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

  /** Removes a block from its node's list. */
  remove(block: BlockId): void {
    const node = this.#get(block, NODE);
    assert(node !== NONE, "Cannot forget a block that is not stored");
    const first = intAt(this.#first, node);
    const next = this.#get(block, NEXT);
    const previous = this.#get(block, PREVIOUS);
    if (block === first) this.#first[node] = next;
    else this.#set(previous, NEXT, next);
    // The first block records the last one; where the first is removed, the next one takes the
    // record over.
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

  /** The last block of this level or a nearer one; `NONE` where all are of farther levels. */
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
