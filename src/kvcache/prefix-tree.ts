/**
 * Which stored block continues which prefix: a tree whose nodes stand for full blocks of tokens.
 *
 * Most nodes have one child, so a node links its first child and a walk down a history reads the
 * nodes' records one after the other, which lie where they were made: side by side. Only further
 * children are in a hash table, by (parent node, the block's tokens). Every find compares the
 * tokens and the parent itself: a hash only chooses a bucket, equal hashes never share contents,
 * and no chain of digests has to be computed. A node lists all blocks with its contents, since
 * tables are append-only and equal blocks may be computed twice.
 *
 * Everything lies in typed arrays sized once: a node has at least one block, so there are never
 * more nodes than blocks.
 */
import { assert, IntList, intAt } from "#base";
import { type BlockId, blockId } from "./block-id.ts";

/** A place in the tree; valid while one of its blocks is stored. */
export type NodeId = number & { readonly kind: "NodeId" };

/** Where a block goes: below `parent`, or at the top of `scope` where that is null. */
export interface BlockPlace {
  readonly scope: string;
  readonly parent: NodeId | null;
  /** [>= start + blockTokens] of which the block holds `blockTokens` from `start` on. */
  readonly tokens: Int32Array;
  readonly start: number;
}

/** Finds stored blocks by contents and history. */
export interface PrefixIndex {
  /** The node that holds these tokens at this place; null where there is none. */
  find(place: BlockPlace): NodeId | null;
  /** One of the blocks of a node. */
  blockOf(node: NodeId): BlockId;
  /** Stores a block, beside equal ones where there are any, and returns its node. */
  insert(place: BlockPlace, block: BlockId): NodeId;
  has(block: BlockId): boolean;
  /** Forgets a block. With a node's last block the node goes; it must have no children then. */
  remove(block: BlockId): void;
  /** Whether this is its node's only block, and others continue it: it cannot be removed alone. */
  isCovered(block: BlockId): boolean;
  /** Forgets what continues a node whose only block this is; `forgotten` hears of each block. */
  removeBelow(block: BlockId, forgotten: (block: BlockId) => void): void;
  clear(): void;
}

/** 32 bits of a parent's number and a block's tokens. */
export type BlockHash = (parent: number, place: BlockPlace, blockTokens: number) => number;

/** What a tree can do without: another hash for tests, a listener for orders. */
export interface PrefixTreeOptions {
  /** Any is right; a bad one is slow. */
  readonly hashBlock?: BlockHash;
  /** Hears of a block that was covered, maybe, and is not any more. */
  readonly onUncovered?: (block: BlockId) => void;
}

const NONE = -1;

// A node's record: eight integers, so that it never spreads over two cache lines.
const NODE_STRIDE = 8;
/** The parent's number; of a top node the complement of its root's number: negative. */
const PARENT = 0;
const FIRST_BLOCK = 1;
const FIRST_CHILD = 2;
const NEXT_SIBLING = 3;
const PREVIOUS_SIBLING = 4;
/** Of a first child neither is kept: it is in no bucket. */
const HASH = 5;
const NEXT_IN_BUCKET = 6;

// A block's record: its node, and its neighbours among that node's blocks.
const BLOCK_STRIDE = 4;
const NODE = 0;
const NEXT_BLOCK = 1;
const PREVIOUS_BLOCK = 2;

/** The index that runs in production; the idea is at the head of this file. */
export class PrefixTree implements PrefixIndex {
  readonly #blockTokens: number;
  readonly #blockCount: number;
  readonly #hashBlock: BlockHash;
  readonly #onUncovered: (block: BlockId) => void;
  readonly #buckets: Int32Array;
  readonly #nodes: Int32Array;
  readonly #tokens: Int32Array;
  readonly #blocks: Int32Array;
  readonly #unusedNodes: IntList = new IntList();

  // By root. A root exists while it has children, so there are never more than blocks.
  readonly #roots = new Map<string, number>();
  readonly #rootScopes: string[] = [];
  readonly #rootFirstChild: Int32Array;
  readonly #unusedRoots: IntList = new IntList();

  constructor(blocks: number, blockTokens: number, options: PrefixTreeOptions = {}) {
    this.#hashBlock = options.hashBlock ?? multiplyAndFold;
    this.#onUncovered = options.onUncovered ?? ignore;
    this.#blockCount = blocks;
    this.#blockTokens = blockTokens;
    this.#buckets = new Int32Array(2 ** Math.ceil(Math.log2(blocks * 2)));
    this.#tokens = new Int32Array(blocks * blockTokens);
    this.#nodes = new Int32Array(blocks * NODE_STRIDE);
    this.#blocks = new Int32Array(blocks * BLOCK_STRIDE);
    this.#rootFirstChild = new Int32Array(blocks);
    this.clear();
  }

  find(place: BlockPlace): NodeId | null {
    const parent = place.parent ?? this.#findRoot(place.scope);
    return parent === null ? null : this.#findChild(parent, place);
  }

  blockOf(node: NodeId): BlockId {
    return blockId(this.#get(node, FIRST_BLOCK));
  }

  insert(place: BlockPlace, block: BlockId): NodeId {
    assert(!this.has(block), "Cannot store a block in two places");
    const parent = place.parent ?? this.#openRoot(place.scope);
    const node = this.#findChild(parent, place) ?? this.#addNode(parent, place);
    this.#addBlock(node, block);
    return node;
  }

  has(block: BlockId): boolean {
    return this.#getOfBlock(block, NODE) !== NONE;
  }

  remove(block: BlockId): void {
    const node = this.#getOfBlock(block, NODE);
    assert(node !== NONE, "Cannot forget a block that is not stored");
    const next = this.#getOfBlock(block, NEXT_BLOCK);
    const previous = this.#getOfBlock(block, PREVIOUS_BLOCK);
    if (previous === NONE) this.#set(node, FIRST_BLOCK, next);
    else this.#setOfBlock(previous, NEXT_BLOCK, next);
    if (next !== NONE) this.#setOfBlock(next, PREVIOUS_BLOCK, previous);
    this.#setOfBlock(block, NODE, NONE);
    if (this.#get(node, FIRST_BLOCK) === NONE) this.#removeNode(node);
  }

  isCovered(block: BlockId): boolean {
    const node = this.#getOfBlock(block, NODE);
    return node !== NONE && this.#get(node, FIRST_CHILD) !== NONE && this.#isOnlyBlock(block);
  }

  removeBelow(block: BlockId, forgotten: (block: BlockId) => void): void {
    assert(this.#isOnlyBlock(block), "Cannot forget what continues a prefix that stays");
    const top = this.#getOfBlock(block, NODE);
    let node = this.#leafBelow(top);
    while (node !== top) {
      const parent = this.#get(node, PARENT);
      this.#removeBlocks(node, forgotten);
      node = this.#leafBelow(parent);
    }
  }

  clear(): void {
    this.#buckets.fill(NONE);
    this.#blocks.fill(NONE);
    this.#unusedNodes.clear();
    for (let node = this.#blockCount - 1; node >= 0; node--) this.#unusedNodes.push(node);
    this.#roots.clear();
    this.#unusedRoots.clear();
    for (let root = this.#blockCount - 1; root >= 0; root--) this.#unusedRoots.push(root);
  }

  /** Nodes in use. */
  get nodeCount(): number {
    return this.#blockCount - this.#unusedNodes.length;
  }

  /** Scopes with at least one stored block. */
  get scopeCount(): number {
    return this.#roots.size;
  }

  #get(node: number, field: number): number {
    return intAt(this.#nodes, node * NODE_STRIDE + field);
  }

  #set(node: number, field: number, value: number): void {
    this.#nodes[node * NODE_STRIDE + field] = value;
  }

  #getOfBlock(block: number, field: number): number {
    return intAt(this.#blocks, block * BLOCK_STRIDE + field);
  }

  #setOfBlock(block: number, field: number, value: number): void {
    this.#blocks[block * BLOCK_STRIDE + field] = value;
  }

  #isOnlyBlock(block: number): boolean {
    return (
      this.#getOfBlock(block, NEXT_BLOCK) === NONE &&
      this.#getOfBlock(block, PREVIOUS_BLOCK) === NONE
    );
  }

  #findRoot(scope: string): number | null {
    const root = this.#roots.get(scope);
    return root === undefined ? null : ~root;
  }

  #openRoot(scope: string): number {
    const known = this.#findRoot(scope);
    if (known !== null) return known;
    const root = this.#unusedRoots.pop();
    this.#roots.set(scope, root);
    this.#rootScopes[root] = scope;
    this.#rootFirstChild[root] = NONE;
    return ~root;
  }

  #firstChild(parent: number): number {
    return parent >= 0 ? this.#get(parent, FIRST_CHILD) : intAt(this.#rootFirstChild, ~parent);
  }

  #setFirstChild(parent: number, child: number): void {
    if (parent >= 0) this.#set(parent, FIRST_CHILD, child);
    else this.#rootFirstChild[~parent] = child;
  }

  #findChild(parent: number, place: BlockPlace): NodeId | null {
    const first = this.#firstChild(parent);
    if (first === NONE) return null;
    if (this.#holds(first, place)) return nodeId(first);
    if (this.#get(first, NEXT_SIBLING) === NONE) return null;
    const hash = this.#hashBlock(parent, place, this.#blockTokens);
    let node = intAt(this.#buckets, this.#bucketOf(hash));
    while (node !== NONE) {
      if (
        this.#get(node, HASH) === hash &&
        this.#get(node, PARENT) === parent &&
        this.#holds(node, place)
      ) {
        return nodeId(node);
      }
      node = this.#get(node, NEXT_IN_BUCKET);
    }
    return null;
  }

  #holds(node: number, place: BlockPlace): boolean {
    const own = node * this.#blockTokens;
    for (let offset = 0; offset < this.#blockTokens; offset++) {
      const stored = intAt(this.#tokens, own + offset);
      if (stored !== intAt(place.tokens, place.start + offset)) return false;
    }
    return true;
  }

  /** The node itself where nothing continues it. */
  #leafBelow(node: number): number {
    let leaf = node;
    let child = this.#get(leaf, FIRST_CHILD);
    while (child !== NONE) {
      leaf = child;
      child = this.#get(leaf, FIRST_CHILD);
    }
    return leaf;
  }

  #removeBlocks(node: number, forgotten: (block: BlockId) => void): void {
    let block = this.#get(node, FIRST_BLOCK);
    while (block !== NONE) {
      const next = this.#getOfBlock(block, NEXT_BLOCK);
      this.remove(blockId(block));
      forgotten(blockId(block));
      block = next;
    }
  }

  /** Behind the first block: what was found before stays what is found. */
  #addBlock(node: number, block: number): void {
    const first = this.#get(node, FIRST_BLOCK);
    const next = first === NONE ? NONE : this.#getOfBlock(first, NEXT_BLOCK);
    this.#setOfBlock(block, NODE, node);
    this.#setOfBlock(block, NEXT_BLOCK, next);
    this.#setOfBlock(block, PREVIOUS_BLOCK, first);
    if (next !== NONE) this.#setOfBlock(next, PREVIOUS_BLOCK, block);
    if (first === NONE) {
      this.#set(node, FIRST_BLOCK, block);
      return;
    }
    this.#setOfBlock(first, NEXT_BLOCK, block);
    this.#onUncovered(blockId(first));
  }

  #addNode(parent: number, place: BlockPlace): NodeId {
    const node = this.#unusedNodes.pop();
    const own = node * this.#blockTokens;
    for (let offset = 0; offset < this.#blockTokens; offset++) {
      this.#tokens[own + offset] = intAt(place.tokens, place.start + offset);
    }
    this.#set(node, PARENT, parent);
    this.#set(node, FIRST_BLOCK, NONE);
    this.#set(node, FIRST_CHILD, NONE);
    this.#linkSibling(node, parent, place);
    return nodeId(node);
  }

  /** Behind the first child, which stays the first. */
  #linkSibling(node: number, parent: number, place: BlockPlace): void {
    const first = this.#firstChild(parent);
    const next = first === NONE ? NONE : this.#get(first, NEXT_SIBLING);
    this.#set(node, PREVIOUS_SIBLING, first);
    this.#set(node, NEXT_SIBLING, next);
    if (next !== NONE) this.#set(next, PREVIOUS_SIBLING, node);
    if (first === NONE) {
      this.#setFirstChild(parent, node);
      return;
    }
    this.#set(first, NEXT_SIBLING, node);
    this.#set(node, HASH, this.#hashBlock(parent, place, this.#blockTokens));
    this.#linkBucket(node);
  }

  #removeNode(node: number): void {
    assert(
      this.#get(node, FIRST_CHILD) === NONE,
      "Cannot forget a prefix before what continues it",
    );
    const parent = this.#get(node, PARENT);
    const next = this.#get(node, NEXT_SIBLING);
    const previous = this.#get(node, PREVIOUS_SIBLING);
    this.#unusedNodes.push(node);
    if (next !== NONE) this.#set(next, PREVIOUS_SIBLING, previous);
    if (previous !== NONE) {
      this.#set(previous, NEXT_SIBLING, next);
      this.#unlinkBucket(node);
      return;
    }
    // The next sibling comes first now, and first children are found by their link alone.
    this.#setFirstChild(parent, next);
    if (next !== NONE) this.#unlinkBucket(next);
    else if (parent < 0) this.#closeRoot(~parent);
    else this.#onUncovered(blockId(this.#get(parent, FIRST_BLOCK)));
  }

  #closeRoot(root: number): void {
    this.#roots.delete(this.#rootScopes[root] ?? "");
    this.#rootScopes[root] = "";
    this.#unusedRoots.push(root);
  }

  #bucketOf(hash: number): number {
    return hash & (this.#buckets.length - 1);
  }

  #linkBucket(node: number): void {
    const bucket = this.#bucketOf(this.#get(node, HASH));
    this.#set(node, NEXT_IN_BUCKET, intAt(this.#buckets, bucket));
    this.#buckets[bucket] = node;
  }

  #unlinkBucket(node: number): void {
    const bucket = this.#bucketOf(this.#get(node, HASH));
    const next = this.#get(node, NEXT_IN_BUCKET);
    let before = intAt(this.#buckets, bucket);
    if (before === node) {
      this.#buckets[bucket] = next;
      return;
    }
    while (this.#get(before, NEXT_IN_BUCKET) !== node) before = this.#get(before, NEXT_IN_BUCKET);
    this.#set(before, NEXT_IN_BUCKET, next);
  }
}

function ignore(): void {
  // Nobody wants to know.
}

/** Multiply and fold, token by token: 32 bits that choose a bucket and nothing else. */
function multiplyAndFold(parent: number, place: BlockPlace, blockTokens: number): number {
  let hash = Math.imul(parent, 0x9e3779b1) ^ 0x5bd1e995;
  for (let offset = 0; offset < blockTokens; offset++) {
    hash = Math.imul(hash ^ intAt(place.tokens, place.start + offset), 0x85ebca6b);
    hash ^= hash >>> 15;
  }
  return hash;
}

function nodeId(value: number): NodeId {
  // Typed arrays cannot carry the brand.
  return value as NodeId;
}
