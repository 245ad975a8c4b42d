/**
 * The prefix tree of stored blocks: each node stands for the tokens of a block.
 *
 * A node links its children, and most nodes have one: a walk down a prefix reads the nodes' records
 * and tokens one after the other, side by side in memory in the order of their insertion. Several
 * children are distinguished bit by bit (sibling-order.ts), which leads to the one with the longest
 * common beginning. Every find then compares the tokens themselves: nothing is hashed, so nothing
 * collides, and no chain of digests has to be computed.
 *
 * A node lists all blocks with its contents (node-blocks.ts), since tables are append-only and
 * equal blocks may be computed twice, and since contents may lie in several levels of memory. A
 * node exists while it has a block, so there are never more nodes than blocks, and all data is in
 * typed arrays sized once.
 */
import { assert, intAt } from "#base";
import type { BlockId } from "./block-id.ts";
import { type BlockPlace, type NodeId, nodeId } from "./block-place.ts";
import { NameNumbers } from "./name-numbers.ts";
import { NodeBlocks } from "./node-blocks.ts";
import { NodeContents } from "./node-contents.ts";
import { NumberPool } from "./number-pool.ts";
import { commonTokens, firstDifference, NONE, SiblingOrder } from "./sibling-order.ts";

export type { BlockPlace, NodeId } from "./block-place.ts";

/** A node whose leading tokens match those of a search. */
export interface PartialFind {
  readonly node: NodeId;
  /** Matching tokens: 1 up to the node's length. */
  readonly tokens: number;
}

/** Optional parts: levels, and listeners, which must not change the tree. */
export interface PrefixTreeOptions {
  /** A block's level, 0 nearest; never changes. Default: 0 for all. */
  readonly levelOf?: (block: BlockId) => number;
  /** Receives a block that may have been covered and is not any more. */
  readonly onUncovered?: (block: BlockId) => void;
  /** Receives a new node, which has its first block already. */
  readonly onNodeAdded?: (node: NodeId) => void;
  /** Receives a node before its removal, while it can be read and still has its last block. */
  readonly onNodeRemoved?: (node: NodeId) => void;
}

// A node's record: where it is.
const NODE_STRIDE = 3;
/** `NONE` at the top. */
const PARENT = 0;
/** Link to the children in `SiblingOrder`; `NONE` without. */
const CHILDREN = 1;
/** The scope's number. */
const SCOPE = 2;

/** Finds stored blocks by prefix and contents; see the head of this file. */
export class PrefixTree {
  /** Most nodes at a time: one per block. */
  readonly nodesMax: number;
  readonly #blockTokens: number;
  readonly #onUncovered: ((block: BlockId) => void) | null;
  readonly #onNodeAdded: ((node: NodeId) => void) | null;
  readonly #onNodeRemoved: ((node: NodeId) => void) | null;
  readonly #siblings: SiblingOrder;
  readonly #blocks: NodeBlocks;
  readonly #numbers: NumberPool = new NumberPool();
  readonly #contents: NodeContents;
  /** [nodesMax, NODE_STRIDE] */
  readonly #nodes: Int32Array;

  /** A scope has a number while it has nodes, so there are never more of them than blocks. */
  readonly #scopes: NameNumbers = new NameNumbers();
  /** By scope: the children of its root. */
  readonly #tops: Int32Array;

  /** An empty tree for the blocks 0 up to `blocks`, of all levels, of `blockTokens` tokens each. */
  constructor(blocks: number, blockTokens: number, options: PrefixTreeOptions = {}) {
    this.nodesMax = blocks;
    this.#blockTokens = blockTokens;
    this.#onUncovered = options.onUncovered ?? null;
    this.#onNodeAdded = options.onNodeAdded ?? null;
    this.#onNodeRemoved = options.onNodeRemoved ?? null;
    this.#siblings = new SiblingOrder(blocks);
    this.#blocks = new NodeBlocks(blocks, options.levelOf ?? sameLevel);
    this.#contents = new NodeContents(blocks, blockTokens);
    this.#nodes = new Int32Array(blocks * NODE_STRIDE);
    this.#tops = new Int32Array(blocks).fill(NONE);
  }

  /** Nodes in use. */
  get nodeCount(): number {
    return this.#numbers.count;
  }

  /** Scopes with at least one stored block. */
  get scopeCount(): number {
    return this.#scopes.count;
  }

  /** Extra keys that at least one node has. */
  get extraCount(): number {
    return this.#contents.extraCount;
  }

  /** The node with exactly these tokens and this extra key at this place; null if none. */
  find(place: BlockPlace): NodeId | null {
    const link = this.#linkAt(place);
    if (link === NONE) return null;
    const key = this.#contents.keyAt(place);
    if (key === null) return null;
    const node = this.#siblings.nearest(link, key);
    return this.#contents.equals(node, key) ? nodeId(node) : null;
  }

  /**
   * The node at this place that shares most leading tokens, at least one; null if none. Among
   * equals it is the one that ends with the shared tokens, since taking it over loses nothing else.
   * Nodes with extra keys never match in part, and neither do places with one.
   */
  findPartial(place: BlockPlace): PartialFind | null {
    if ((place.extra ?? "") !== "") return null;
    const link = this.#linkAt(place);
    const key = this.#contents.keyAt(place);
    if (link === NONE || key === null) return null;
    const longest = this.#siblings.nearest(link, key);
    if (this.#contents.hasExtra(longest)) return null;
    const tokens = commonTokens(key, this.#contents.keyOf(longest));
    if (tokens === 0) return null;
    if (tokens === this.#contents.lengthOf(longest)) return { node: nodeId(longest), tokens };
    const common = { ...key, count: tokens };
    const ended = this.#siblings.nearest(link, common);
    return { node: nodeId(this.#contents.equals(ended, common) ? ended : longest), tokens };
  }

  /** Stores a block at a place, beside equal ones where there are any, and returns its node. */
  insert(place: BlockPlace, block: BlockId): NodeId {
    this.#assertFits(place, block);
    // The contents are written first and compared in their own row: one walk finds an equal node,
    // or the new node's position. Equal nodes are rare enough to undo the row.
    const link = this.#linkAt(place);
    const node = this.#numbers.take();
    this.#contents.write(node, place);
    let own = node;
    if (link !== NONE) {
      const key = this.#contents.keyOf(node);
      const nearest = this.#siblings.nearest(link, key);
      const position = firstDifference(key, this.#contents.keyOf(nearest));
      if (position === NONE) {
        this.#giveBack(node);
        this.attach(nodeId(nearest), block);
        return nodeId(nearest);
      }
      own = this.#siblings.add(link, node, key, position);
    }
    this.#setPlace(node, place);
    this.#setLinkOf(node, own);
    this.#blocks.add(node, block);
    this.#onNodeAdded?.(nodeId(node));
    return nodeId(node);
  }

  /** Stores a further block with a node's contents, behind those of its own and nearer levels. */
  attach(node: NodeId, block: BlockId): void {
    const first = this.#blocks.first(node);
    const wasOnly = this.#blocks.isOnly(first);
    this.#blocks.add(node, block);
    if (wasOnly) this.#onUncovered?.(first);
  }

  /**
   * Forgets a block. A node is removed with its last block; it must have no children then. Returns
   * whether the node was removed.
   */
  remove(block: BlockId): boolean {
    if (!this.#blocks.isOnly(block)) {
      this.#blocks.remove(block);
      return false;
    }
    const node = this.nodeOf(block);
    assert(
      node !== null && this.#get(node, CHILDREN) === NONE,
      "Cannot forget a prefix before what continues it",
    );
    this.#onNodeRemoved?.(node);
    this.#blocks.remove(block);
    this.#removeNode(node);
    return true;
  }

  /**
   * Forgets all descendants of a node, each after its own children, held or not; the node stays.
   * `forgotten` receives each block after it was forgotten, and must not change the tree.
   */
  removeBelow(node: NodeId, forgotten: (block: BlockId) => void): void {
    let at = this.#leafBelow(node);
    while (at !== node) {
      const parent = this.#get(at, PARENT);
      for (let stays = true; stays; ) {
        const block = this.#blocks.first(at);
        stays = !this.#blocks.isOnly(block);
        this.remove(block);
        forgotten(block);
      }
      at = this.#leafBelow(parent);
    }
  }

  /** Forgets everything, in one pass over all blocks; listeners are not called. */
  clear(): void {
    this.#blocks.clear();
    this.#siblings.clear();
    this.#numbers.clear();
    this.#contents.clear();
    this.#scopes.clear();
    this.#tops.fill(NONE);
  }

  /** Whether a block is stored. */
  has(block: BlockId): boolean {
    return this.#blocks.nodeOf(block) !== null;
  }

  /** The node in which a block is stored; null if it is not stored. */
  nodeOf(block: BlockId): NodeId | null {
    const node = this.#blocks.nodeOf(block);
    return node === null ? null : nodeId(node);
  }

  /** The best of a node's blocks: in the nearest level, and there the first that was stored. */
  blockOf(node: NodeId): BlockId {
    return this.#blocks.first(node);
  }

  /** All blocks of a node, the best first. The node must not change meanwhile. */
  blocksOf(node: NodeId): Iterable<BlockId> {
    return this.#blocks.of(node);
  }

  /** A node's parent; null at the root of its scope. */
  parentOf(node: NodeId): NodeId | null {
    const parent = this.#get(node, PARENT);
    return parent === NONE ? null : nodeId(parent);
  }

  /** The scope that a node is in. */
  scopeOf(node: NodeId): string {
    return this.#scopes.nameOf(this.#get(node, SCOPE));
  }

  /** How many tokens a node stands for: fewer than a block has where it is partial. */
  lengthOf(node: NodeId): number {
    return this.#contents.lengthOf(node);
  }

  /** [lengthOf] A node's tokens, without a copy; valid while the node is. */
  tokensOf(node: NodeId): Int32Array {
    return this.#contents.tokensOf(node);
  }

  /** A node's extra key; "" where it has none. */
  extraOf(node: NodeId): string {
    return this.#contents.extraOf(node);
  }

  /** Whether a node has children. */
  hasChildren(node: NodeId): boolean {
    return this.#get(node, CHILDREN) !== NONE;
  }

  /** A node's child where it has exactly one; else null. */
  onlyChildOf(node: NodeId): NodeId | null {
    const link = this.#get(node, CHILDREN);
    return link === NONE || this.#siblings.parts(link) !== null ? null : nodeId(link);
  }

  /** Whether a node has more than one child. */
  hasSeveralChildren(node: NodeId): boolean {
    const link = this.#get(node, CHILDREN);
    return link !== NONE && this.#siblings.parts(link) !== null;
  }

  /** Whether a block is stored and the only one of its node, in any level. */
  isOnlyBlock(block: BlockId): boolean {
    return this.#blocks.isOnly(block);
  }

  /**
   * Whether this is its node's only block and the node has children: it cannot be removed alone.
   */
  isCovered(block: BlockId): boolean {
    const node = this.nodeOf(block);
    return node !== null && this.hasChildren(node) && this.isOnlyBlock(block);
  }

  /** All nodes, parents before children. Costs a scan; nothing may change meanwhile. */
  *nodes(): Generator<NodeId> {
    const links: number[] = [];
    for (const scope of this.#scopes.numbers()) links.push(intAt(this.#tops, scope));
    for (let link = links.pop(); link !== undefined; link = links.pop()) {
      if (link === NONE) continue;
      const parts = this.#siblings.parts(link);
      if (parts !== null) {
        links.push(...parts);
        continue;
      }
      yield nodeId(link);
      links.push(this.#get(link, CHILDREN));
    }
  }

  #get(node: number, field: number): number {
    return intAt(this.#nodes, node * NODE_STRIDE + field);
  }

  #set(node: number, field: number, value: number): void {
    this.#nodes[node * NODE_STRIDE + field] = value;
  }

  /** The children of a place's parent. */
  #linkAt(place: BlockPlace): number {
    if (place.parent !== null) return this.#get(place.parent, CHILDREN);
    const scope = this.#scopes.find(place.scope);
    return scope === null ? NONE : intAt(this.#tops, scope);
  }

  /** A node's siblings and the node itself. */
  #linkOf(node: number): number {
    const parent = this.#get(node, PARENT);
    if (parent !== NONE) return this.#get(parent, CHILDREN);
    return intAt(this.#tops, this.#get(node, SCOPE));
  }

  #setLinkOf(node: number, link: number): void {
    const parent = this.#get(node, PARENT);
    if (parent === NONE) this.#tops[this.#get(node, SCOPE)] = link;
    else this.#set(parent, CHILDREN, link);
  }

  /** A leaf below a node; the node itself where it has no children. */
  #leafBelow(node: number): number {
    let leaf = node;
    for (let link = this.#get(leaf, CHILDREN); link !== NONE; link = this.#get(leaf, CHILDREN)) {
      leaf = this.#siblings.first(link);
    }
    return leaf;
  }

  /** Before anything changes: a caller's mistake leaves the tree as it was. */
  #assertFits({ parent, count = this.#blockTokens }: BlockPlace, block: BlockId): void {
    assert(!this.has(block), "Cannot store a block in two places");
    assert(count > 0 && count <= this.#blockTokens, "Cannot store more or less than a block");
    assert(
      parent === null || this.lengthOf(parent) === this.#blockTokens,
      "Cannot continue a prefix that does not end with a full block",
    );
  }

  #setPlace(node: number, { parent, scope }: BlockPlace): void {
    this.#set(node, PARENT, parent ?? NONE);
    this.#set(node, CHILDREN, NONE);
    this.#set(node, SCOPE, parent === null ? this.#scopes.retain(scope) : this.#get(parent, SCOPE));
  }

  #removeNode(node: NodeId): void {
    const parent = this.parentOf(node);
    const link = this.#linkOf(node);
    // Most nodes are only children, and need no key to be found.
    const rest = link === node ? NONE : this.#siblings.remove(link, this.#contents.keyOf(node));
    this.#contents.erase(node);
    this.#numbers.give(node);
    if (parent === null) {
      const scope = this.#get(node, SCOPE);
      this.#tops[scope] = rest;
      this.#scopes.release(scope);
      return;
    }
    this.#set(parent, CHILDREN, rest);
    if (rest === NONE) this.#onUncovered?.(this.blockOf(parent));
  }

  #giveBack(node: number): void {
    this.#contents.erase(node);
    this.#numbers.give(node);
  }
}

/** Of a cache with one level. */
function sameLevel(): number {
  return 0;
}
