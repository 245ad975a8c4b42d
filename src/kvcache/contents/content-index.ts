/**
 * The index of stored contents over all levels: the prefix tree, and per node the number of its
 * children by level.
 *
 * A block is *covered* while it is its node's only block in its level or a nearer one, and some
 * child is in its level or a nearer one. Evicting it would make that child unreachable, so eviction
 * policies pass over covered blocks. Children in farther levels do not count: a tail in host memory
 * does not keep its head on the device. A block on disk is also covered while a child is on disk,
 * wherever the best copies are: after a restart only the copies on disk exist.
 */
import { assert, intAt } from "#base";
import type { BlockId } from "./block-id.ts";
import { nodeId } from "./block-place.ts";
import type { BlockTable } from "./block-table.ts";
import type { CacheLevel } from "./cache-level.ts";
import { type BlockPlace, type NodeId, type PartialFind, PrefixTree } from "./prefix-tree.ts";

/** Receives changes of the index. */
export interface IndexListener {
  /** Contents can be found from now on. */
  stored(node: NodeId): void;
  /** Contents cannot be found any more. They can still be read during this call. */
  removed(node: NodeId): void;
  /** Another block is the best copy of contents now, in another level or in the same. */
  bestChanged(node: NodeId, from: BlockId, to: BlockId): void;
  /** A block that may have been covered is not covered any more. */
  uncovered(block: BlockId): void;
}

/** Farther than every level. */
const NOWHERE = 3;
/** Levels whose children are counted; below the last one every child counts. */
const COUNTED = 2;
/** The last level. */
const DISK = 2;

/** Finds contents by prefix and tokens, and the blocks that store them. */
export class ContentIndex {
  readonly #tree: PrefixTree;
  readonly #blockTokens: number;
  readonly #levelOf: (block: BlockId) => CacheLevel;
  readonly #listener: IndexListener;
  /** [nodes, 2] children in level 0, and in level 0 or 1. */
  readonly #near: Int32Array;
  /** [nodes] children with a copy on disk. */
  readonly #onDisk: Int32Array;
  /** [nodes] How often the node's number was reused for other contents. */
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

  /** The tree, read-only. */
  get tree(): Pick<
    PrefixTree,
    | "nodes"
    | "parentOf"
    | "scopeOf"
    | "tokensOf"
    | "lengthOf"
    | "extraOf"
    | "onlyChildOf"
    | "nodeCount"
    | "scopeCount"
  > {
    return this.#tree;
  }

  find(place: BlockPlace): NodeId | null {
    return this.#tree.find(place);
  }

  /** Whether a block of `tokens` tokens can continue `parent`, or be a root block where null. */
  fits(parent: NodeId | null, tokens: number): boolean {
    if (tokens <= 0 || tokens > this.#blockTokens) return false;
    return parent === null || this.#tree.lengthOf(parent) === this.#blockTokens;
  }

  /** The child that shares most leading tokens with the tokens of `place`. */
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

  /** Whether a number is that of a node with contents. */
  isStored(node: number): boolean {
    const isNumber = Number.isInteger(node) && node >= 0 && node < this.#serials.length;
    return isNumber && this.#tree.lengthOf(nodeId(node)) > 0;
  }

  /** Distinguishes a node's contents from earlier ones of its number; changes on their removal. */
  serialOf(node: NodeId): number {
    return intAt(this.#serials, node);
  }

  /** Sets the node of a table's last published block; null: none. */
  setTip(table: BlockTable, node: NodeId | null): void {
    table.tip = node;
    table.tipSerial = node === null ? 0 : this.serialOf(node);
  }

  /** Whether the prefix of a table's next block can still be found. */
  hasTip({ tip, tipSerial }: BlockTable): boolean {
    return tip === null || this.serialOf(tip) === tipSerial;
  }

  /** Whether a node has children. */
  hasChildren(node: NodeId): boolean {
    return this.#tree.hasChildren(node);
  }

  /** Whether a node has more than one child. */
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

  /** The level of a block. */
  levelOf(block: BlockId): CacheLevel {
    return this.#levelOf(block);
  }

  /** The blocks of a node in one level. */
  *blocksIn(node: NodeId, level: CacheLevel): Iterable<BlockId> {
    for (const block of this.#tree.blocksOf(node)) {
      if (this.#levelOf(block) === level) yield block;
    }
  }

  /**
   * Stores a block, beside others with equal contents where there are any, and returns its node.
   */
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

  /** Adds a further block with a node's contents. */
  attach(node: NodeId, block: BlockId): void {
    const first = this.#tree.blockOf(node);
    this.#tree.attach(node, block);
    this.#joined(node, block, first);
  }

  /** Forgets a block. A node is removed with its last block; it must have no children then. */
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

  /**
   * Forgets all descendants of a node, each after its own children; `forgotten` receives each
   * block.
   */
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

  /** Counts a block that joined others of its contents, of which `first` was the best. */
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
    // The former best copy is not covered any more, and children that covered the best copy may be
    // in a farther level than it.
    if (this.#tree.nodeOf(before) === node) this.#listener.uncovered(before);
    this.#checkUncovered(node);
  }

  /** Updates the counts of children per level. */
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
    // One by one: a `fill` of so few entries costs more than all the rest of an insertion.
    for (let at = node * COUNTED; at < (node + 1) * COUNTED; at++) this.#near[at] = 0;
    this.#onDisk[node] = 0;
  }

  /** Counts a child more, or less, with a copy on disk. */
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

  /** Whether a block is its node's only block on disk. */
  #isOnlyOnDisk(node: NodeId, block: BlockId): boolean {
    return this.#levelOf(block) === DISK && !this.#hasTwin(node, DISK);
  }

  #checkUncovered(node: NodeId): void {
    const best = this.#tree.blockOf(node);
    if (!this.#isContinued(node, this.#levelOf(best))) this.#listener.uncovered(best);
  }
}
