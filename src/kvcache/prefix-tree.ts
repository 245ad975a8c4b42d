/**
 * Which stored block continues which prefix: a tree whose nodes stand for full blocks of tokens.
 *
 * A node is found by (parent node, the block's tokens) in one hash table over all nodes, and every
 * find compares the tokens and the parent itself. The hash therefore only chooses a bucket: equal
 * hashes never share contents, and no chain of digests has to be computed. A node lists all blocks
 * with its contents, since tables are append-only and equal blocks may be computed twice.
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
  clear(): void;
}

/** 32 bits of a parent's number and a block's tokens. */
export type BlockHash = (parent: number, place: BlockPlace, blockTokens: number) => number;

const NONE = -1;

export class PrefixTree implements PrefixIndex {
  readonly #blockTokens: number;
  readonly #blocks: number;
  readonly #hashBlock: BlockHash;
  readonly #buckets: Int32Array;

  // By node. A top node's parent is the complement of its root's number: negative.
  readonly #parent: Int32Array;
  readonly #hash: Int32Array;
  readonly #tokens: Int32Array;
  readonly #children: Int32Array;
  readonly #firstBlock: Int32Array;
  readonly #nextInBucket: Int32Array;
  readonly #unusedNodes: IntList = new IntList();

  // By block: its node, and its neighbours among that node's blocks.
  readonly #node: Int32Array;
  readonly #nextBlock: Int32Array;
  readonly #previousBlock: Int32Array;

  // By root. A root exists while it has children, so there are never more than blocks.
  readonly #roots = new Map<string, number>();
  readonly #rootScopes: string[] = [];
  readonly #rootChildren: Int32Array;
  readonly #unusedRoots: IntList = new IntList();

  /** Any `hashBlock` is right; a bad one is slow. */
  constructor(blocks: number, blockTokens: number, hashBlock: BlockHash = multiplyAndFold) {
    this.#hashBlock = hashBlock;
    this.#blocks = blocks;
    this.#blockTokens = blockTokens;
    this.#buckets = new Int32Array(2 ** Math.ceil(Math.log2(blocks * 2)));
    this.#tokens = new Int32Array(blocks * blockTokens);
    const perBlock = () => new Int32Array(blocks);
    this.#parent = perBlock();
    this.#hash = perBlock();
    this.#children = perBlock();
    this.#firstBlock = perBlock();
    this.#nextInBucket = perBlock();
    this.#node = perBlock();
    this.#nextBlock = perBlock();
    this.#previousBlock = perBlock();
    this.#rootChildren = perBlock();
    this.clear();
  }

  find(place: BlockPlace): NodeId | null {
    const parent = place.parent ?? this.#findRoot(place.scope);
    if (parent === null) return null;
    return this.#findChild(parent, place, this.#hashBlock(parent, place, this.#blockTokens));
  }

  blockOf(node: NodeId): BlockId {
    return blockId(intAt(this.#firstBlock, node));
  }

  insert(place: BlockPlace, block: BlockId): NodeId {
    assert(intAt(this.#node, block) === NONE, "Cannot store a block in two places");
    const parent = place.parent ?? this.#openRoot(place.scope);
    const hash = this.#hashBlock(parent, place, this.#blockTokens);
    const node = this.#findChild(parent, place, hash) ?? this.#addNode(parent, place, hash);
    const first = intAt(this.#firstBlock, node);
    // Behind the first: what was found before stays what is found.
    const next = first === NONE ? NONE : intAt(this.#nextBlock, first);
    this.#node[block] = node;
    this.#nextBlock[block] = next;
    this.#previousBlock[block] = first;
    if (next !== NONE) this.#previousBlock[next] = block;
    if (first === NONE) this.#firstBlock[node] = block;
    else this.#nextBlock[first] = block;
    return node;
  }

  has(block: BlockId): boolean {
    return intAt(this.#node, block) !== NONE;
  }

  remove(block: BlockId): void {
    const node = intAt(this.#node, block);
    assert(node !== NONE, "Cannot forget a block that is not stored");
    const next = intAt(this.#nextBlock, block);
    const previous = intAt(this.#previousBlock, block);
    if (previous === NONE) this.#firstBlock[node] = next;
    else this.#nextBlock[previous] = next;
    if (next !== NONE) this.#previousBlock[next] = previous;
    this.#node[block] = NONE;
    if (intAt(this.#firstBlock, node) === NONE) this.#removeNode(node);
  }

  clear(): void {
    this.#buckets.fill(NONE);
    this.#node.fill(NONE);
    this.#unusedNodes.clear();
    for (let node = this.#blocks - 1; node >= 0; node--) this.#unusedNodes.push(node);
    this.#roots.clear();
    this.#unusedRoots.clear();
    for (let root = this.#blocks - 1; root >= 0; root--) this.#unusedRoots.push(root);
  }

  /** Nodes in use. */
  get nodeCount(): number {
    return this.#blocks - this.#unusedNodes.length;
  }

  /** Scopes with at least one stored block. */
  get scopeCount(): number {
    return this.#roots.size;
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
    this.#rootChildren[root] = 0;
    return ~root;
  }

  #findChild(parent: number, place: BlockPlace, hash: number): NodeId | null {
    let node = intAt(this.#buckets, hash & (this.#buckets.length - 1));
    while (node !== NONE) {
      if (
        intAt(this.#hash, node) === hash &&
        intAt(this.#parent, node) === parent &&
        this.#holds(node, place)
      ) {
        return nodeId(node);
      }
      node = intAt(this.#nextInBucket, node);
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

  #addNode(parent: number, place: BlockPlace, hash: number): NodeId {
    const node = this.#unusedNodes.pop();
    const own = node * this.#blockTokens;
    for (let offset = 0; offset < this.#blockTokens; offset++) {
      this.#tokens[own + offset] = intAt(place.tokens, place.start + offset);
    }
    const bucket = hash & (this.#buckets.length - 1);
    this.#parent[node] = parent;
    this.#hash[node] = hash;
    this.#children[node] = 0;
    this.#firstBlock[node] = NONE;
    this.#nextInBucket[node] = intAt(this.#buckets, bucket);
    this.#buckets[bucket] = node;
    this.#countChild(parent, 1);
    return nodeId(node);
  }

  #removeNode(node: number): void {
    assert(this.#children[node] === 0, "Cannot forget a prefix before what continues it");
    const bucket = intAt(this.#hash, node) & (this.#buckets.length - 1);
    const next = intAt(this.#nextInBucket, node);
    let before = intAt(this.#buckets, bucket);
    if (before === node) {
      this.#buckets[bucket] = next;
    } else {
      while (intAt(this.#nextInBucket, before) !== node) before = intAt(this.#nextInBucket, before);
      this.#nextInBucket[before] = next;
    }
    this.#countChild(intAt(this.#parent, node), -1);
    this.#unusedNodes.push(node);
  }

  #countChild(parent: number, change: 1 | -1): void {
    if (parent >= 0) {
      this.#children[parent] = intAt(this.#children, parent) + change;
      return;
    }
    const root = ~parent;
    const children = intAt(this.#rootChildren, root) + change;
    this.#rootChildren[root] = children;
    if (children > 0) return;
    this.#roots.delete(this.#rootScopes[root] ?? "");
    this.#rootScopes[root] = "";
    this.#unusedRoots.push(root);
  }
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
