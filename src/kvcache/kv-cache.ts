import { assert, type IntList } from "#base";
import { type BlockId, blockId } from "./block-id.ts";
import type { BlockMove } from "./block-move.ts";
import { type BlockCounts, BlockPool } from "./block-pool.ts";
import type { BlockTable } from "./block-table.ts";
import { createEviction, type EvictionPolicyName } from "./eviction-policies.ts";
import { NO_MATCH, type PrefixMatch } from "./prefix-match.ts";
import { type NodeId, PrefixTree } from "./prefix-tree.ts";

/** How large the pool is, what is shared, and what is forgotten first. */
export interface KvCacheShape {
  /** Blocks in the pool. */
  readonly blocks: number;
  /** Positions per block. */
  readonly blockTokens: number;
  /** Off: no block is ever published, so none is shared. Default: on. */
  readonly prefixCaching?: boolean;
  /** Which cached block to forget first. Default: lru. */
  readonly evictionPolicy?: EvictionPolicyName;
}

/** The books of the KV pool: who holds which block, and whose prefix can be shared. */
export class KvCache {
  readonly blockTokens: number;
  readonly prefixCaching: boolean;
  readonly #pool: BlockPool;
  readonly #tree: PrefixTree;
  /** Whether a prefix may be forgotten before what continues it, which is forgotten then, too. */
  readonly #evictsCovered: boolean;
  #moves: BlockMove[] = [];

  constructor(shape: KvCacheShape) {
    assert(Number.isInteger(shape.blockTokens) && shape.blockTokens > 0, "Blocks need positions");
    this.blockTokens = shape.blockTokens;
    this.prefixCaching = shape.prefixCaching ?? true;
    const policy = shape.evictionPolicy ?? "lru";
    this.#evictsCovered = policy === "true-priority";
    const eviction = createEviction(policy, shape.blocks, (block) => this.#tree.isCovered(block));
    const { uncovered } = eviction;
    this.#tree = new PrefixTree(shape.blocks, shape.blockTokens, {
      ...(uncovered === undefined ? {} : { onUncovered: uncovered.bind(eviction) }),
    });
    this.#pool = new BlockPool(shape.blocks, eviction, (block) => this.#forget(block));
  }

  get totalBlocks(): number {
    return this.#pool.total;
  }

  /** Blocks that `allocate` can hand out. */
  get availableBlocks(): number {
    return this.#pool.availableCount;
  }

  /** Cached blocks that were forgotten to make room, since the start. */
  get evictions(): number {
    return this.#pool.evictions;
  }

  counts(): BlockCounts {
    return this.#pool.counts();
  }

  holders(block: BlockId): number {
    return this.#pool.holders(block);
  }

  /** Blocks that `tokens` positions need. */
  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockTokens);
  }

  /**
   * The longest stored prefix of `tokens`, in full blocks, that leaves the last token to compute:
   * its row is what the next token is drawn from. Changes nothing.
   */
  match(scope: string, tokens: Int32Array): PrefixMatch {
    if (!this.prefixCaching) return NO_MATCH;
    const blocksMax = Math.floor((tokens.length - 1) / this.blockTokens);
    const blocks: BlockId[] = [];
    let tip: NodeId | null = null;
    for (let index = 0; index < blocksMax; index++) {
      const place = { scope, parent: tip, tokens, start: index * this.blockTokens };
      const node = this.#tree.find(place);
      if (node === null) break;
      blocks.push(this.#tree.blockOf(node));
      tip = node;
    }
    return { ...NO_MATCH, blocks, tip, tokens: blocks.length * this.blockTokens };
  }

  /** `hold` and `settle` in one, where only one table is filled. */
  adopt(table: BlockTable, match: PrefixMatch): void {
    this.hold(table, match);
    this.settle(table, match);
  }

  /**
   * How many device blocks stop being available when a block of a match is claimed: none when
   * somebody holds it on the device. A partial match that is copied costs one more, the copy.
   */
  claimCost(block: BlockId): 0 | 1 {
    return this.#pool.holders(block) === 0 ? 1 : 0;
  }

  /**
   * An empty table takes the matched blocks, one holder more for each, so that nothing evicts them.
   * All tables that a step fills are held first, then settled.
   */
  hold(table: BlockTable, match: PrefixMatch): void {
    assert(table.length === 0, "Cannot adopt a prefix behind other blocks");
    for (const block of match.blocks) {
      this.#pool.retain(block);
      table.ids.push(block);
    }
    table.publishedBlocks = match.blocks.length;
    table.tip = match.tip;
  }

  /** Makes a held match usable: contents come back to the device, a partial block is copied. */
  settle(_table: BlockTable, _match: PrefixMatch): void {
    // Everything is on the device.
  }

  /** An empty table shares all blocks of another one, the partly filled last one too. */
  fork(parent: BlockTable, child: BlockTable): void {
    assert(child.length === 0, "Cannot fork into a table that has blocks");
    assert(child.scope === parent.scope, "Cannot fork into another scope");
    for (let index = 0; index < parent.length; index++) {
      const block = parent.get(index);
      if (parent.holds(index)) this.#pool.retain(block);
      child.ids.push(block);
    }
    child.publishedBlocks = parent.publishedBlocks;
    child.tip = parent.tip;
    child.droppedFrom = parent.droppedFrom;
    child.droppedTo = parent.droppedTo;
    child.broken = parent.broken;
  }

  /** Whether another table holds the block at `index`, too. */
  isShared(table: BlockTable, index: number): boolean {
    return this.#pool.holders(table.get(index)) > 1;
  }

  /**
   * Before positions from `position` on are written: gives the table a block of its own where it
   * shares the one that `position` is in. False, and nothing happens, when there is no block left.
   */
  makeWritable(table: BlockTable, position: number): boolean {
    const index = Math.floor(position / this.blockTokens);
    if (index >= table.length || !this.isShared(table, index)) return true;
    if (!this.#pool.allocate(1, table.ids)) return false;
    const copy = blockId(table.ids.pop());
    const shared = table.get(index);
    this.#moves.push({ kind: "copy", from: shared, to: copy });
    this.#pool.release(shared);
    table.ids.set(index, copy);
    return true;
  }

  /** What must be copied, in order, before the next step computes. */
  takeMoves(): readonly BlockMove[] {
    const moves = this.#moves;
    this.#moves = [];
    return moves;
  }

  /** A fully published table takes further blocks, up to `blocks` in all; they must be stored. */
  extend(table: BlockTable, tokens: Int32Array, blocks: number): void {
    assert(table.publishedBlocks === table.length, "Cannot extend an unpublished prefix");
    while (table.length < blocks) {
      const start = table.length * this.blockTokens;
      const node = this.#tree.find({ scope: table.scope, parent: table.tip, tokens, start });
      assert(node !== null, "Cannot share a block that is not stored");
      const block = this.#tree.blockOf(node);
      this.#pool.retain(block);
      table.ids.push(block);
      table.publishedBlocks++;
      table.tip = node;
    }
  }

  /** Appends `count` blocks to the table, or touches nothing: false tells to make room first. */
  allocate(table: BlockTable, count: number): boolean {
    return this.#pool.allocate(count, table.ids);
  }

  /**
   * How much the table's blocks from `start` up to `end` are worth keeping when nobody holds them:
   * 0 to 100. For the policies priority and true-priority; others ignore it.
   */
  prioritise(table: BlockTable, start: number, end: number, priority: number): void {
    for (let index = start; index < end; index++) this.#pool.prioritise(table.get(index), priority);
  }

  /**
   * Makes the table's blocks that lie below position `filled` known to others, if full and not
   * known yet. `tokens` are the sequence's, at least `filled` of them.
   */
  publish(table: BlockTable, tokens: IntList, filled: number): void {
    if (!this.prefixCaching) return;
    const full = Math.floor(filled / this.blockTokens);
    while (table.publishedBlocks < full) {
      const start = table.publishedBlocks * this.blockTokens;
      const block = table.get(table.publishedBlocks);
      const place = { scope: table.scope, parent: table.tip, tokens: tokens.view(), start };
      table.tip = this.#tree.insert(place, block);
      this.#pool.publish(block);
      table.publishedBlocks++;
    }
  }

  /**
   * Forgets blocks whose contents turned out never to be written: `blocks` in the order they were
   * published. Tables that hold them must be released, not grown. Unpublished ones are passed over.
   */
  unpublish(blocks: IntList): void {
    for (let index = blocks.length - 1; index >= 0; index--) {
      const block = blockId(blocks.get(index));
      if (!this.#tree.has(block)) continue;
      this.#tree.remove(block);
      this.#pool.unpublish(block);
    }
  }

  /** Gives all blocks of a table back, the last first, so that tails are forgotten before heads. */
  release(table: BlockTable): void {
    while (table.length > 0) {
      const held = table.holds(table.length - 1);
      const block = blockId(table.ids.pop());
      if (held) this.#pool.release(block);
    }
    table.publishedBlocks = 0;
    table.tip = null;
    table.droppedFrom = 0;
    table.droppedTo = 0;
    table.broken = false;
  }

  /** Forgets all cached prefixes; false, and nothing happens, while a block is held. */
  reset(): boolean {
    if (this.counts().held > 0) return false;
    this.#pool.freeCached();
    this.#tree.clear();
    return true;
  }

  /** Checks that the books agree with all tables there are. Costs a scan; for tests and bugs. */
  audit(tables: Iterable<BlockTable>): void {
    const holders = new Int32Array(this.totalBlocks);
    for (const table of tables) {
      for (const block of table.view()) holders[block] = (holders[block] ?? 0) + 1;
    }
    this.#pool.audit(holders);
    for (let index = 0; index < this.totalBlocks; index++) {
      const block = blockId(index);
      const stored = this.#tree.has(block);
      assert(stored === this.#pool.isPublished(block), `Block ${index} is not in the index`);
    }
  }

  #forget(victim: BlockId): void {
    const node = this.#tree.nodeOf(victim);
    if (node !== null && this.#evictsCovered && this.#tree.isCovered(victim)) {
      this.#tree.removeBelow(node, (block) => this.#pool.evictWith(block));
    }
    this.#tree.remove(victim);
  }
}
