import type { IntList } from "#base";
import {
  type BlockId,
  type BlockTable,
  type CacheLevel,
  type ContentKeys,
  groupScope,
  NO_MATCH,
  type NodeId,
  type PrefixMatch,
} from "#kvcache/contents";
import {
  createObserver,
  KvEventQueue,
  type KvSnapshot,
  type NumberedKvEvent,
} from "#kvcache/events";
import type { BlockRetention } from "#kvcache/eviction";
import {
  type BlockFile,
  type BlockMove,
  CacheBooks,
  DiskBooks,
  type DiskFlush,
  type DiskJob,
  type FinishedDiskJob,
  PeerBooks,
  type PoolStats,
  Swap,
} from "#kvcache/levels";
import { type CacheAsk, type CacheLook, lookInto } from "./cache-look.ts";
import { booksShape, type CacheWindow, type KvCacheShape } from "./cache-shape.ts";
import { type CacheStats, cacheStats } from "./cache-stats.ts";
import { forgetCached, reset } from "./forgetting.ts";
import { matchGroups } from "./group-match.ts";
import { type BlockRange, PrefixReuse } from "./prefix-reuse.ts";
import { Publisher, type StoredTail, type TokenSource } from "./publisher.ts";
import { allParts, TableBlocks } from "./table-blocks.ts";
import { TablePrefixes } from "./table-prefixes.ts";
import { truncate } from "./truncation.ts";

/** The bookkeeping of the KV cache: holders, stored contents and shareable prefixes. */
export class KvCache {
  readonly blockTokens: number;
  readonly prefixCaching: boolean;
  /** By group of layers: the attention window; null: queries see everything. */
  readonly windows: readonly (CacheWindow | null)[];
  /** Whether blocks fall out of a window in some group of layers. */
  readonly hasWindow: boolean;
  /** Groups of layers: a table has a block in each for the same positions. */
  readonly groupCount: number;
  /** Blocks that travel to other engines and come from them. */
  readonly peers: PeerBooks;
  /** Whether partly filled blocks at ends of sequences are stored. */
  readonly storesTails: boolean;
  /** What is where, for people. Costs a bounded scan; see cache-look.ts. */
  readonly look: (ask: CacheAsk) => CacheLook = (ask) => lookInto(this.#books, ask);
  /** Begins to write what is cached to disk, to end the cache's use (KV75); null: no disk level. */
  readonly startFlush: () => DiskFlush | null = () => this.#disk.startFlush();
  readonly #books: CacheBooks;
  readonly #reuse: PrefixReuse;
  readonly #publisher: Publisher;
  readonly #tables: TableBlocks;
  readonly #prefixes: TablePrefixes;
  readonly #swap: Swap;
  readonly #disk: DiskBooks;
  readonly #events: KvEventQueue | null;
  readonly #blocksPerLevel: readonly number[];

  constructor(shape: KvCacheShape) {
    const books = booksShape(shape);
    const { blockTokens } = books;
    this.blockTokens = blockTokens;
    this.prefixCaching = shape.prefixCaching ?? true;
    this.windows = shape.windows ?? [null];
    this.groupCount = this.windows.length;
    this.hasWindow = this.windows.some((window) => window !== null);
    const { partialReuse = true, copyOnPartialReuse = true } = shape;
    this.storesTails = this.prefixCaching && partialReuse;
    this.#blocksPerLevel = books.blocksPerLevel;
    this.#events = shape.events ? new KvEventQueue(this.#blocksPerLevel, this.groupCount) : null;
    this.#books = new CacheBooks(books, {
      observer: (contents) => createObserver(shape, contents, this.#events),
      disk: {
        offloaded: (host, node) => this.#disk.offloaded(host, node),
        forgotten: (disk, node) => this.#disk.forgotten(disk, node),
      },
    });
    this.#reuse = new PrefixReuse(this.#books, { blockTokens, partialReuse, copyOnPartialReuse });
    this.#publisher = new Publisher(this.#books, blockTokens);
    this.#tables = new TableBlocks(this.#books, { blockTokens, windows: this.windows });
    const { occupation } = this.#books;
    this.#prefixes = new TablePrefixes({ tables: this.#tables, reuse: this.#reuse, occupation });
    this.#swap = new Swap(this.#books);
    this.#disk = new DiskBooks(this.#books);
    this.peers = new PeerBooks(this.#books, { blockTokens, groups: this.groupCount });
  }

  /** Blocks on the device. */
  get totalBlocks(): number {
    return this.#books.device.blocks;
  }

  /** Device blocks that can be allocated. */
  get availableBlocks(): number {
    return this.#books.device.availableCount;
  }

  /** Cached device blocks that were evicted, since the start. */
  get evictions(): number {
    return this.#books.device.evictions;
  }

  /** The blocks of one level by state: 0 device, 1 host memory, 2 disk. */
  poolStats(level: CacheLevel = 0): PoolStats {
    return this.#books.booksAt(level)?.poolStats() ?? { free: 0, held: 0, cached: 0, total: 0 };
  }

  /** Counters since the start, of all levels. */
  stats(): CacheStats {
    return cacheStats({
      ...{ books: this.#books, reuse: this.#reuse, swap: this.#swap, disk: this.#disk },
      ...{ peers: this.peers, copiedBlocks: this.#tables.copiedBlocks },
    });
  }

  /** Tables and jobs that hold a block. */
  holders(block: BlockId): number {
    return this.#books.booksOf(block).holders(block);
  }

  /** The level of a block. */
  levelOf(block: BlockId): CacheLevel {
    return this.#books.levelOf(block);
  }

  /** A block's retention priority: 0 to 100. */
  priorityOf(block: BlockId): number {
    return this.#books.booksOf(block).priorityOf(block);
  }

  /** Blocks that `tokens` positions need in one group of layers. */
  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockTokens);
  }

  /** Sets the time and ends due retention durations. Once per step, before anything else. */
  advance(nowMs: number): void {
    this.#books.advance(nowMs);
  }

  /**
   * The longest stored prefix of `tokens` that leaves the last token to compute: the next token is
   * sampled from its row. Changes nothing.
   */
  match(scope: string, tokens: Int32Array, keys: ContentKeys | null = null): PrefixMatch {
    if (!this.prefixCaching) return NO_MATCH;
    const prompt = { scope, tokens, keys };
    const { groupCount: groups, blockTokens } = this;
    if (groups === 1) return this.#reuse.match(prompt);
    return matchGroups(prompt, { groups, blockTokens, find: (part) => this.#reuse.match(part) });
  }

  /** `hold` and `settle` in one, where only one table is filled. */
  adopt(table: BlockTable, match: PrefixMatch): void {
    this.hold(table, match);
    this.settle(table, match);
  }

  /**
   * Device blocks that stop being available when a block of a match is claimed: none when it is
   * held on the device. A partial match that is copied costs one more, the copy; its own block only
   * counts if it is on the device. In host memory it stays there: who claims it whole pays for it.
   */
  claimCost(block: BlockId): 0 | 1 {
    const { device } = this.#books;
    return device.has(block) && device.holders(block) > 0 ? 0 : 1;
  }

  /**
   * Adds the matched blocks to an empty table, with one holder more for each that a later query
   * sees, against eviction. All tables that a step fills are held first, then settled.
   */
  hold(table: BlockTable, match: PrefixMatch): void {
    this.#prefixes.hold(table, match);
  }

  /** Makes a held match usable: moves contents to the device, copies a partial block. */
  settle(table: BlockTable, match: PrefixMatch): void {
    this.#prefixes.settle(table, match);
  }

  /** Extends a fully published table to `blocks` blocks; the further ones must be stored. */
  extend(table: BlockTable, tokens: Int32Array, blocks: number): void {
    this.#prefixes.extend(table, tokens, blocks);
  }

  /** An empty table gets all blocks of another one, the partly filled last one too, as shared. */
  fork(parent: BlockTable, child: BlockTable): void {
    this.#tables.fork(parent, child);
  }

  /**
   * Call before writing from `position` on: a table that shares a block of `position` gets a copy
   * of its own. False, and nothing happens, when there are too few blocks.
   */
  makeWritable(table: BlockTable, position: number): boolean {
    return this.#tables.makeWritable(table, position);
  }

  /** The copies to carry out, in order, before the next step computes. */
  takeMoves(): readonly BlockMove[] {
    return this.#books.takeMoves();
  }

  /**
   * Appends `count` blocks in each group of layers; false, and nothing changes, when blocks must be
   * freed first.
   */
  allocate(table: BlockTable, count: number): boolean {
    return this.#tables.allocate(table, count);
  }

  /** Sets the holder's retention of the table's block at `index`; null leaves it as it is. */
  setRetention(table: BlockTable, index: number, retention: BlockRetention | null): void {
    if (retention === null) return;
    for (const part of table.parts) {
      if (part.holds(index)) this.#books.claim(part.get(index), retention);
    }
  }

  /** The same, of blocks from `start` up to `end`: a priority, 0 to 100, for ever. */
  prioritise(table: BlockTable, start: number, end: number, priority: number): void {
    for (let index = start; index < end; index++) {
      this.setRetention(table, index, { priority, durationMs: null });
    }
  }

  /**
   * Publishes the table's full blocks below position `filled` of the sequence's `tokens`, so that
   * others find them. `log` receives the entries that `forgetPublished` needs to undo this.
   */
  publish(
    table: BlockTable,
    tokens: TokenSource,
    filled: number,
    log: IntList | null = null,
  ): void {
    if (!this.prefixCaching) return;
    const source = { tokens, computed: filled };
    if (this.groupCount === 1) this.#publisher.publish(table, source, log);
    else for (const part of table.parts) this.#publisher.publish(part, source, log);
  }

  /**
   * Forgets what `publish` wrote to a log, and all behind it, in all levels: the step that was to
   * compute it failed. Contents already forgotten are passed over; tables stay as they are.
   */
  forgetPublished(log: IntList): void {
    this.#publisher.forget(log);
  }

  /** Releases the blocks that no query at `position` or later sees; none without a window. */
  dropLeading(table: BlockTable, position: number): void {
    this.#tables.dropLeading(table, position);
  }

  /**
   * Table indices that no query of a group at `position` or later sees: `from` up to `to`. Equal
   * where every query sees everything.
   */
  unseenBlocks(position: number, group = 0): BlockRange {
    return this.#tables.unseen(position, group);
  }

  /** Releases the table's last blocks, down to `blocks`: their positions are not needed. */
  shrink(table: BlockTable, blocks: number): void {
    this.#tables.shrink(table, blocks);
  }

  /**
   * Releases all blocks of a table, the last first, so that tails are evicted before heads. With
   * `tail` the partly filled last block can be found from now on, too.
   */
  release(table: BlockTable, tail: StoredTail | null = null): void {
    for (const part of table.parts) {
      if (tail !== null && this.storesTails && !part.swapped) {
        this.#publisher.publishTail(part, tail);
      }
      this.#tables.empty(part);
    }
    this.#books.occupation.noteTable(table);
  }

  /** How many blocks move when these tables are swapped out or in; a shared one counts once. */
  swapBlocks(tables: readonly BlockTable[]): number {
    return this.#swap.blocksOf(allParts(tables));
  }

  /** Whether host memory has room for these tables. */
  canSwapOut(tables: readonly BlockTable[]): boolean {
    return this.#swap.canSwapOut(allParts(tables));
  }

  /**
   * Moves the contents of all these tables to host memory: they hold host blocks then, and no
   * device block. False, and nothing moves, when host memory has too few blocks.
   */
  swapOut(tables: readonly BlockTable[]): boolean {
    return this.#noted(tables, this.#swap.swapOut(allParts(tables)));
  }

  /** The reverse of `swapOut`. False, and nothing moves, when the device has too few blocks. */
  swapIn(tables: readonly BlockTable[]): boolean {
    return this.#noted(tables, this.#swap.swapIn(allParts(tables)));
  }

  /**
   * Starts reading a match's `onDisk` blocks into host memory, as many as there is room for; `key`
   * names the load. False: nothing to read, or no room.
   */
  startLoad(match: PrefixMatch, key: number): boolean {
    return this.#disk.startLoad(match, key);
  }

  /**
   * Writes prefixes of blocks on disk, a few at a time: a restart finds none without its prefix.
   * Between steps only, when all stored contents are computed.
   */
  writeHeads(): void {
    this.#disk.writeHeads();
  }

  /**
   * The jobs between host memory and disk, to start once all moves that were taken before are
   * carried out: a job may read a moved block. All but deletions are to be reported.
   */
  takeDiskJobs(): readonly DiskJob[] {
    return this.#disk.takeJobs();
  }

  /** Reports the end of a job. Returns the key of the load that is complete with it, if any. */
  finishDiskJob(finished: FinishedDiskJob): number | null {
    return this.#disk.finish(finished);
  }

  /**
   * Stores a block that an earlier run left on disk below `parent`, the node of its `parentKey`.
   * Null: no free block, stored already, or its key does not match its contents.
   */
  restore(file: BlockFile, parent: NodeId | null): NodeId | null {
    return this.#disk.restore(file, parent);
  }

  /**
   * Truncates a conversation to its first `keep` tokens: unheld blocks behind them that no other
   * conversation continues get the lowest priority and are evicted next. Returns their number.
   */
  truncate(scope: string, tokens: Int32Array, keep: number): number {
    let demoted = 0;
    for (let group = 0; group < this.groupCount; group++) {
      const prompt = { scope: groupScope(scope, group), tokens, keys: null };
      demoted += truncate(this.#books, { prompt, keep, blockTokens: this.blockTokens });
    }
    return demoted;
  }

  /** Forgets all cached prefixes; false, and nothing happens, while a block is held anywhere. */
  reset(): boolean {
    return reset(this.#books);
  }

  /** Forgets cached blocks; those that are held stay, and can still be found. Costs a scan. */
  forgetCached(): void {
    forgetCached(this.#books);
  }

  /** The events since the last call, numbered on. Once per step; none where events are off. */
  takeEvents(): readonly NumberedKvEvent[] {
    return this.#events?.flush() ?? [];
  }

  /** All findable contents, at the events that were taken; null: events are off. Costs a scan. */
  snapshot(): KvSnapshot | null {
    const blocks = this.#books.observer.snapshotBlocks();
    if (this.#events === null || blocks === null) return null;
    return { nextId: this.#events.nextId, blocksPerLevel: this.#blocksPerLevel, blocks };
  }

  /** Checks the bookkeeping against all tables there are. Costs a scan; for tests and bugs. */
  audit(tables: Iterable<BlockTable>): void {
    this.#books.audit(allParts([...tables]), [...this.#disk.pinned(), ...this.peers.pinned()]);
  }

  #noted(tables: readonly BlockTable[], done: boolean): boolean {
    for (const table of tables) this.#books.occupation.noteTable(table);
    return done;
  }
}
