import { assert } from "#base";
import { type BlockId, matchParts, type NodeId, type PrefixMatch } from "#kvcache/contents";
import { timelessLease } from "#kvcache/eviction";
import type { DiskListener } from "./books-listeners.ts";
import type { CacheBooks } from "./cache-books.ts";
import { DiskFlush } from "./disk-flush.ts";
import { DiskHeads } from "./disk-heads.ts";
import type { BlockFile, DiskJob, FinishedDiskJob } from "./disk-job.ts";

/** Each costs a copy from the device, which delays the next step. */
const HEADS_PER_CALL = 16;

type TransferJob = Exclude<DiskJob, { readonly kind: "delete" }>;

/** Blocks, since the start. */
export interface DiskStats {
  readonly loaded: number;
  readonly written: number;
  /** Copied from the device to host memory only to be written. */
  readonly copiedAhead: number;
  /** Jobs, not blocks, that failed. */
  readonly failures: number;
}

/** Reads that one caller waits for. */
interface Load {
  left: number;
  /** Host blocks of the prefix before the blocks read: without them the read would be useless. */
  readonly held: readonly BlockId[];
}

/**
 * The transfers to and from disk, as jobs that run beside the steps. Both directions pass through
 * host memory: contents that reach it are written behind, and are read back into it. A host block
 * stays held while a job uses it.
 */
export class DiskBooks implements DiskListener {
  readonly #books: CacheBooks;
  readonly #heads: DiskHeads;
  #jobs: DiskJob[] = [];
  /** Under way, by the block that each fills: no other job uses it until its end. */
  readonly #transfers = new Map<BlockId, TransferJob>();
  /** By the file's key: writes under way, and whether one wrote a file without stored contents. */
  readonly #writing = new Map<string, { left: number; isStray: boolean }>();
  /** Loads under way, by the caller's key. */
  readonly #loads = new Map<number, Load>();
  readonly #loadOf = new Map<DiskJob, number>();
  #flush: DiskFlush | null = null;
  /** Set while forgotten contents keep their files. */
  #keepsFiles = false;
  #loadedBlocks = 0;
  #writtenBlocks = 0;
  #copiedAhead = 0;
  #failures = 0;

  constructor(books: CacheBooks) {
    this.#books = books;
    this.#heads = new DiskHeads(books.index, (node) => this.#isWritten(node));
  }

  /** Counters since the start. */
  get stats(): DiskStats {
    return {
      loaded: this.#loadedBlocks,
      written: this.#writtenBlocks,
      copiedAhead: this.#copiedAhead,
      failures: this.#failures,
    };
  }

  /** The jobs to start now; the end of each must be reported to `finish`, except deletions. */
  takeJobs(): readonly DiskJob[] {
    const jobs = this.#jobs;
    this.#jobs = [];
    return jobs;
  }

  /** Blocks that jobs and loads hold, whether `takeJobs` has returned the job or not. */
  *pinned(): Iterable<BlockId> {
    for (const { held } of this.#loads.values()) yield* held;
    for (const job of this.#transfers.values()) {
      yield job.host;
      yield job.disk;
    }
    if (this.#flush !== null) yield* this.#flush.held();
  }

  /** See `KvCache.startFlush`. */
  startFlush(): DiskFlush | null {
    if (this.#books.disk === null) return null;
    this.#flush = new DiskFlush(this.#books, {
      isWritten: (node) => this.#isWritten(node),
      write: (node) => this.#writeHead(node),
    });
    return this.#flush;
  }

  /** See `KvCache.writeHeads`. */
  writeHeads(): void {
    this.#heads.writeSome(HEADS_PER_CALL, (node) => this.#writeHead(node) !== null);
  }

  /** See `KvCache.startLoad`. */
  startLoad(match: PrefixMatch, key: number): boolean {
    assert(!this.#loads.has(key), "Cannot start a load twice");
    // The reads must not evict blocks of the prefix that they continue. Blocks of it that earlier
    // decisions of the step took are forgotten already.
    const { index } = this.#books;
    const parts = matchParts(match);
    const held = parts
      .flatMap(({ blocks }) => blocks)
      .filter((at) => this.#books.levelOf(at) === 1 && index.has(at));
    for (const block of held) this.#books.booksOf(block).pin(block);
    const left = parts.reduce((sum, { onDisk }) => sum + this.#startReads(onDisk, key), 0);
    if (left > 0) this.#loads.set(key, { left, held });
    else for (const block of held.toReversed()) this.#books.release(block);
    return left > 0;
  }

  /** Starts reads of these blocks, as many as there is room for; returns their number. */
  #startReads(onDisk: readonly BlockId[], key: number): number {
    let reads = 0;
    for (const disk of onDisk) {
      const node = this.#books.index.nodeOf(disk);
      // A nearer copy may exist by now; the rest of the chain is worth as much.
      if (node === null || this.#books.index.blockOf(node) !== disk) continue;
      const host = this.#books.takeHost();
      if (host === null) break;
      if (this.#books.index.nodeOf(disk) === null) {
        this.#books.release(host);
        break;
      }
      this.#books.booksOf(disk).pin(disk);
      const job: TransferJob = { kind: "read", host, disk, file: this.#fileOf(node, disk) };
      this.#begin(job);
      this.#loadOf.set(job, key);
      reads++;
    }
    return reads;
  }

  /** See `KvCache.finishDiskJob`. */
  finish({ job: ended, ok, unreadable = false }: FinishedDiskJob): number | null {
    if (!ok) this.#failures++;
    if (ended.kind === "delete") return null;
    // The job may come back as a copy.
    const job = this.#transfers.get(filledBy(ended));
    assert(job?.kind === ended.kind, "Cannot finish a job twice");
    this.#transfers.delete(filledBy(job));
    if (job.kind === "write") {
      this.#finishWrite(job, ok);
      return null;
    }
    this.#finishRead(job, ok);
    if (!ok && !unreadable) this.#forgetUnread(job);
    const key = this.#loadOf.get(job);
    assert(key !== undefined, "Cannot finish a read that was not started");
    this.#loadOf.delete(job);
    const load = this.#loads.get(key);
    assert(load !== undefined, "Cannot finish a read of a load that is over");
    load.left--;
    if (load.left > 0) return null;
    this.#loads.delete(key);
    for (const block of load.held.toReversed()) this.#books.release(block);
    return key;
  }

  /** See `KvCache.restore`. */
  restore(file: BlockFile, parent: NodeId | null): NodeId | null {
    const { disk, index } = this.#books;
    if (disk === null || disk.poolStats().free === 0) return null;
    const { scope, tokens, extra } = file;
    if (!index.fits(parent, tokens.length)) return null;
    const place = { scope, parent, tokens, start: 0, count: tokens.length, extra };
    if (index.find(place) !== null) return null;
    const block = disk.take();
    assert(block !== null, "Cannot take a free block");
    disk.claim(block, { priority: file.priority, durationMs: null });
    const node = index.insert(place, block);
    disk.publish(block);
    const known = this.#books.observer.fileKeyOf(node) === file.key;
    if (!known) {
      // The key is not that of the contents. The file stays, whatever wrote it.
      this.#keepsFiles = true;
      this.#books.forget(block);
      this.#keepsFiles = false;
    }
    this.#books.release(block);
    return known ? node : null;
  }

  /** Contents that reach host memory are written behind, unless they are on disk already. */
  offloaded(host: BlockId, node: NodeId): void {
    const { index } = this.#books;
    for (const _ of index.blocksIn(node, 2)) return;
    const parent = index.tree.parentOf(node);
    if (this.#write(host, node) !== null && parent !== null) this.#heads.want(parent);
  }

  /** Null where nothing is written: no room, or making room forgot the contents. */
  #write(host: BlockId, node: NodeId): BlockId | null {
    const { disk, index } = this.#books;
    const block = disk?.take() ?? null;
    if (block === null) return null;
    if (index.nodeOf(host) === null) {
      this.#books.release(block);
      return null;
    }
    this.#books.booksOf(host).pin(host);
    const file = this.#fileOf(node, host);
    const writing = this.#writing.get(file.key);
    if (writing === undefined) this.#writing.set(file.key, { left: 1, isStray: false });
    else writing.left++;
    this.#begin({ kind: "write", host, disk: block, file });
    return block;
  }

  /** Null where nothing is written: no room, or making room forgot the contents. */
  #writeHead(node: NodeId): BlockId | null {
    const { index } = this.#books;
    for (const host of index.blocksIn(node, 1)) return this.#write(host, node);
    const from = index.blockOf(node);
    const serial = index.serialOf(node);
    const host = this.#books.takeHost();
    if (host === null) return null;
    const isThere = index.serialOf(node) === serial && index.blockOf(node) === from;
    if (isThere) {
      this.#books.copyToHost(from, host, node);
      this.#copiedAhead++;
    }
    const disk = isThere ? this.#write(host, node) : null;
    this.#books.release(host);
    return disk;
  }

  #isWritten(node: NodeId): boolean {
    for (const _ of this.#books.index.blocksIn(node, 2)) return true;
    return this.#writing.has(this.#books.observer.fileKeyOf(node));
  }

  #begin(job: TransferJob): void {
    assert(!this.#transfers.has(filledBy(job)), "Cannot fill a block twice at a time");
    this.#transfers.set(filledBy(job), job);
    this.#jobs.push(job);
  }

  #finishWrite({ host, disk, file }: TransferJob, ok: boolean): void {
    const { index } = this.#books;
    const level = this.#books.booksOf(disk);
    const node = index.nodeOf(host);
    if (!ok) this.#heads.clear();
    const leavesStray = this.#endWriting(file.key, { ok, isForgotten: node === null });
    if (leavesStray) this.#jobs.push({ kind: "delete", disk, file });
    if (ok && node !== null) {
      this.#books.inherit(disk, host);
      index.attach(node, disk);
      level.publish(disk);
      this.#writtenBlocks++;
    }
    this.#flush?.ended(disk, ok && node !== null);
    this.#books.release(disk);
    this.#books.release(host);
  }

  /**
   * Ends a write of this key. Returns whether a stray file is left, or may be: its contents were
   * forgotten while they were written. While they are written anew it may stay; if that succeeds
   * the file belongs to them, and if it fails the old file is stray.
   */
  #endWriting(key: string, end: { readonly ok: boolean; readonly isForgotten: boolean }): boolean {
    const writing = this.#writing.get(key);
    assert(writing !== undefined, "Cannot end a write that was not begun");
    writing.isStray = end.isForgotten || (writing.isStray && !end.ok);
    writing.left--;
    if (writing.left > 0) return false;
    this.#writing.delete(key);
    return writing.isStray;
  }

  #finishRead({ host, disk }: TransferJob, ok: boolean): void {
    const { index } = this.#books;
    const node = index.nodeOf(disk);
    const level = this.#books.booksOf(host);
    this.#books.release(disk);
    if (ok && node !== null && this.#books.levelOf(index.blockOf(node)) === 2) {
      this.#books.inherit(host, disk);
      index.attach(node, host);
      level.publish(host);
      this.#books.cameFromDisk(host);
      this.#loadedBlocks++;
    }
    this.#books.release(host);
  }

  /** Forgets a block whose file does not hold its contents. */
  #forgetUnread({ disk }: TransferJob): void {
    if (this.#books.index.nodeOf(disk) !== null) this.#books.forget(disk);
  }

  /** Deletes the file of contents that leave the disk, unless it is to be kept. */
  forgotten(disk: BlockId, node: NodeId): void {
    if (this.#keepsFiles) return;
    this.#jobs.push({ kind: "delete", disk, file: this.#fileOf(node, disk) });
  }

  #fileOf(node: NodeId, block: BlockId): BlockFile {
    const { tree } = this.#books.index;
    const { observer } = this.#books;
    const parent = tree.parentOf(node);
    return {
      key: observer.fileKeyOf(node),
      parentKey: parent === null ? null : observer.fileKeyOf(parent),
      scope: tree.scopeOf(node),
      extra: tree.extraOf(node),
      tokens: tree.tokensOf(node).slice(),
      priority: timelessLease(this.#books.booksOf(block).leaseOf(block)).priority,
    };
  }
}

/** Taken for this job alone, and held until its end. */
function filledBy({ kind, host, disk }: TransferJob): BlockId {
  return kind === "write" ? disk : host;
}
