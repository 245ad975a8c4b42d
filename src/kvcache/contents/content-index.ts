/**
 * Which contents are stored, and in which levels: the prefix tree, and for each of its nodes how
 * many of the nodes below it are as near.
 *
 * A block is *covered* while it is the only one of its node in its level or a nearer one, and some
 * child is in its level or a nearer one. Leaving it out then would make what is nearer unreachable,
 * so orders of eviction pass covered blocks over. Children farther away do not count: a tail that
 * went to host memory does not keep its head on the device. A block on disk is covered, too, while
 * a child is on disk, wherever the best copies are: after a restart these are all there is.
 */
import { assert, intAt } from "#base";
import type { BlockId } from "./block-id.ts";
import type { BlockTable } from "./block-table.ts";
import type { CacheLevel } from "./cache-level.ts";
import { type BlockPlace, type NodeId, type PartialFind, PrefixTree } from "./prefix-tree.ts";

/** Who wants to know what the index finds out. */
export interface IndexListener {
  /** Contents can be found that could not before. */
  stored(node: NodeId): void;
  /** Contents cannot be found any more. They can still be read, for the last time. */
  removed(node: NodeId): void;
  /** Another block is the best copy of contents now, in another level or in the same. */
  bestChanged(node: NodeId, from: BlockId, to: BlockId): void;
  /** A block was covered, maybe, and is not any more. */
  uncovered(block: BlockId): void;
}

/** Farther than every level. */
const NOWHERE = 3;
/** Levels whose children are counted; below the last one every child counts. */
const COUNTED = 2;
/** The last level. */
const DISK = 2;

/** Contents by history and tokens, and the blocks that have them. */
export class ContentIndex {
  readonly #tree: PrefixTree;
  readonly #blockTokens: number;
  readonly #levelOf: (block: BlockId) => CacheLevel;
  readonly #listener: IndexListener;
  /** [nodes, 2] children in level 0, and in level 0 or 1. */
  readonly #near: Int32Array;
  /** [nodes] children with a copy on disk. */
  readonly #onDisk: Int32Array;
  /** [nodes] how often the number was given to other contents: nodes' numbers are used again. */
  readonly #serials: Int32Array;

  /** `blocks`: of all levels together. */
  constructor(
    shape: { readonly blocks: number; readonly blockTokens: number },
    levelOf: (block: BlockId) => CacheLevel,
    listener: IndexListener,
  ) {
    this.#blockTokens = shape.blockTokens;
    this.#levelOf = levelOf;
    this.#listener = listener;
    this.#near = new Int32Array(shape.blocks * COUNTED);
    this.#onDisk = new Int32Array(shape.blocks);
    this.#serials = new Int32Array(shape.blocks);
    this.#tree = new PrefixTree(shape.blocks, shape.blockTokens, {
      levelOf,
      onNodeRemoved: (node) => {
        this.#serials[node] = this.serialOf(node) + 1;
        listener.removed(node);
      },
    });
  }

  /** The tree, to read. */
  get tree(): Pick<
    PrefixTree,
    | "nodes"
    | "parentOf"
    | "scopeOf"
    | "tokensOf"
    | "lengthOf"
    | "extraOf"
    | "nodeCount"
    | "scopeCount"
  > {
    return this.#tree;
  }

  find(place: BlockPlace): NodeId | null {
    return this.#tree.find(place);
  }

  /** Whether contents of so many tokens can continue `parent`, or start a history where null. */
  fits(parent: NodeId | null, tokens: number): boolean {
    if (tokens <= 0 || tokens > this.#blockTokens) return false;
    return parent === null || this.#tree.lengthOf(parent) === this.#blockTokens;
  }

  /** The child that shares most leading tokens with what is at `place`. */
  findPartial(place: BlockPlace): PartialFind | null {
    return this.#tree.findPartial(place);
  }

  /** The best copy of a node's contents. */
  blockOf(node: NodeId): BlockId {
    return this.#tree.blockOf(node);
  }

  nodeOf(block: BlockId): NodeId | null {
    return this.#tree.nodeOf(block);
  }

  has(block: BlockId): boolean {
    return this.#tree.has(block);
  }

  /** Tells a node's contents from all that had its number before; changes when they go. */
  serialOf(node: NodeId): number {
    return intAt(this.#serials, node);
  }

  /** A table's last published block is at `node`; null: it has none. */
  setTip(table: BlockTable, node: NodeId | null): void {
    table.tip = node;
    table.tipSerial = node === null ? 0 : this.serialOf(node);
  }

  /** Whether what a table's next block continues can still be found. */
  hasTip({ tip, tipSerial }: BlockTable): boolean {
    return tip === null || this.serialOf(tip) === tipSerial;
  }

  /** Whether others continue a node. */
  hasChildren(node: NodeId): boolean {
    return this.#tree.hasChildren(node);
  }

  /** Whether more than one branch continues a node. */
  hasSeveralChildren(node: NodeId): boolean {
    return this.#tree.hasSeveralChildren(node);
  }

  /** All blocks of a node, the best first. The node must not change meanwhile. */
  blocksOf(node: NodeId): Iterable<BlockId> {
    return this.#tree.blocksOf(node);
  }

  /** Whether no other block, in any level, has the contents of this one. */
  isOnlyBlock(block: BlockId): boolean {
    return this.#tree.isOnlyBlock(block);
  }

  /** Where a block is. */
  levelOf(block: BlockId): CacheLevel {
    return this.#levelOf(block);
  }

  /** The blocks of a node in one level. */
  *blocksIn(node: NodeId, level: CacheLevel): Iterable<BlockId> {
    for (const block of this.#tree.blocksOf(node)) {
      if (this.#levelOf(block) === level) yield block;
    }
  }

  /** Stores contents, beside equal ones where there are any, and returns their node. */
  insert(place: BlockPlace, block: BlockId): NodeId {
    const node = this.#tree.insert(place, block);
    if (!this.#tree.isOnlyBlock(block)) {
      const [first, second] = this.#tree.blocksOf(node);
      this.#joined(node, block, first === block ? second : first);
      return node;
    }
    this.#countNoChildren(node);
    const level = this.#levelOf(block);
    this.#childMoved(place.parent, NOWHERE, level);
    if (level === DISK) this.#childOnDisk(place.parent, 1);
    this.#listener.stored(node);
    return node;
  }

  /** One block more with a node's contents. */
  attach(node: NodeId, block: BlockId): void {
    const first = this.#tree.blockOf(node);
    this.#tree.attach(node, block);
    this.#joined(node, block, first);
  }

  /** Forgets a block. With a node's last block the node goes; it must have no children then. */
  remove(block: BlockId): void {
    const node = this.#tree.nodeOf(block);
    assert(node !== null, "Cannot forget a block that is not stored");
    const parent = this.#tree.parentOf(node);
    const level = this.#levelOf(block);
    if (level === DISK && !this.#hasTwin(node, DISK)) this.#childOnDisk(parent, -1);
    const best = this.#tree.blockOf(node);
    if (this.#tree.remove(block)) this.#childMoved(parent, level, NOWHERE);
    else if (block === best) this.#bestChanged(node, best);
  }

  /** Forgets all that continues a node; `forgotten` hears of each block, deepest first. */
  removeBelow(node: NodeId, forgotten: (block: BlockId) => void): void {
    this.#tree.removeBelow(node, forgotten);
    this.#countNoChildren(node);
  }

  /** See the head of this file. */
  isCovered(block: BlockId): boolean {
    const node = this.#tree.nodeOf(block);
    if (node === null) return false;
    if (intAt(this.#onDisk, node) > 0 && this.#isOnlyOnDisk(node, block)) return true;
    if (this.#tree.blockOf(node) !== block) return false;
    const level = this.#levelOf(block);
    if (!this.#isContinued(node, level)) return false;
    return this.#tree.isOnlyBlock(block) || !this.#hasTwin(node, level);
  }

  /** Forgets everything. */
  clear(): void {
    for (const node of this.#tree.nodes()) this.#serials[node] = this.serialOf(node) + 1;
    this.#tree.clear();
  }

  /** Checks the counts of children. Costs a scan; for tests and bugs. */
  audit(): void {
    const near = new Int32Array(this.#near.length);
    const onDisk = new Int32Array(this.#onDisk.length);
    for (const node of this.#tree.nodes()) {
      const parent = this.#tree.parentOf(node);
      if (parent === null) continue;
      if (this.#isOnDisk(node)) onDisk[parent] = intAt(onDisk, parent) + 1;
      for (let level = this.#bestLevel(node); level < COUNTED; level++) {
        const at = parent * COUNTED + level;
        near[at] = intAt(near, at) + 1;
      }
    }
    for (const node of this.#tree.nodes()) {
      assert(onDisk[node] === this.#onDisk[node], `Node ${node} counts its children wrongly`);
      for (let at = node * COUNTED; at < (node + 1) * COUNTED; at++) {
        assert(near[at] === this.#near[at], `Node ${node} counts its near children wrongly`);
      }
    }
  }

  #hasTwin(node: NodeId, level: CacheLevel): boolean {
    let copies = 0;
    for (const _ of this.blocksIn(node, level)) copies++;
    return copies > 1;
  }

  #isContinued(node: NodeId, level: CacheLevel): boolean {
    if (level === COUNTED) return this.#tree.hasChildren(node);
    return intAt(this.#near, node * COUNTED + level) > 0;
  }

  #bestLevel(node: NodeId): CacheLevel {
    return this.#levelOf(this.#tree.blockOf(node));
  }

  /** A block is listed with others of its contents, of which `first` was the best. */
  #joined(node: NodeId, block: BlockId, first: BlockId | undefined): void {
    assert(first !== undefined, "Cannot join contents that have no block");
    if (this.#tree.blockOf(node) === block) this.#bestChanged(node, first);
    else if (this.#levelOf(block) === this.#levelOf(first)) this.#listener.uncovered(first);
    if (this.#isOnlyOnDisk(node, block)) this.#childOnDisk(this.#tree.parentOf(node), 1);
  }

  #bestChanged(node: NodeId, before: BlockId): void {
    const best = this.#tree.blockOf(node);
    const from = this.#levelOf(before);
    const to = this.#levelOf(best);
    if (from !== to) this.#childMoved(this.#tree.parentOf(node), from, to);
    this.#listener.bestChanged(node, before, best);
    // What is not the best copy any more is not covered, and what covered the best one may be
    // farther away than it is.
    if (this.#tree.nodeOf(before) === node) this.#listener.uncovered(before);
    this.#checkUncovered(node);
  }

  /** Keeps count of the children that are near. */
  #childMoved(parent: NodeId | null, from: number, to: number): void {
    if (parent === null) return;
    const change = to < from ? 1 : -1;
    const end = parent * COUNTED + Math.min(COUNTED, Math.max(from, to));
    for (let at = parent * COUNTED + Math.min(from, to); at < end; at++) {
      this.#near[at] = intAt(this.#near, at) + change;
    }
    if (to > from) this.#checkUncovered(parent);
  }

  #countNoChildren(node: NodeId): void {
    // One by one: filling so few costs more than all the rest of an insertion.
    for (let at = node * COUNTED; at < (node + 1) * COUNTED; at++) this.#near[at] = 0;
    this.#onDisk[node] = 0;
  }

  /** One child more, or less, that has a copy on disk. */
  #childOnDisk(parent: NodeId | null, change: number): void {
    if (parent === null) return;
    const count = intAt(this.#onDisk, parent) + change;
    this.#onDisk[parent] = count;
    if (count > 0) return;
    for (const block of this.blocksIn(parent, DISK)) this.#listener.uncovered(block);
  }

  #isOnDisk(node: NodeId): boolean {
    for (const _ of this.blocksIn(node, DISK)) return true;
    return false;
  }

  /** Whether a block is on disk, and no other one of its node is. */
  #isOnlyOnDisk(node: NodeId, block: BlockId): boolean {
    return this.#levelOf(block) === DISK && !this.#hasTwin(node, DISK);
  }

  #checkUncovered(node: NodeId): void {
    const best = this.#tree.blockOf(node);
    if (!this.#isContinued(node, this.#levelOf(best))) this.#listener.uncovered(best);
  }
}
