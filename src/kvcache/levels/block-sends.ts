import { assert } from "#base";
import {
  type BlockId,
  groupScope,
  type LookUp,
  type NodeId,
  type Occupation,
} from "#kvcache/contents";
import type { CacheBooks } from "./cache-books.ts";
import { TransferHold } from "./occupation-book.ts";
import type { FinishedPeerJob, PeerJob, TransferLevel } from "./peer-job.ts";
import { StoredChain } from "./stored-chain.ts";

/** Of the host level, most that one transfer may have on its way at a time: 1 / 4. */
const SHARE_ON_THE_WAY = 4;

/**
 * The same where no request waits for it, 1 / 32: what is copied there takes the place of cached
 * contents.
 */
const SPARE_SHARE = 32;
/** At least so many, as far as one transfer may have them. */
const SPARE_MIN = 4;

/** A stored block that is to be sent, pinned until then. */
interface Pinned {
  readonly piece: number;
  readonly block: BlockId;
  readonly node: NodeId;
  readonly serial: number;
}

/** Blocks of one prompt that are sent. */
interface Send {
  readonly chains: readonly StoredChain[];
  /** The first block to send. */
  readonly from: number;
  /** Where blocks leave. */
  readonly level: TransferLevel;
  readonly isSpare: boolean;
  /** Blocks of the device among those that it holds. */
  readonly near: TransferHold;
  /** Pinned, and not on the way yet, in order. */
  readonly waiting: Pinned[];
  onTheWay: number;
  sent: number;
  ended: boolean;
}

/** What is sent, from which block on, and where it leaves. */
interface SendStart {
  readonly prompt: LookUp;
  readonly from: number;
  readonly level: TransferLevel;
  /** No request waits for it: it takes little of host memory. Default: false. */
  readonly isSpare?: boolean;
  /** Of the sequence that computes the blocks. Default: a new one. */
  readonly occupation?: Occupation;
}

/**
 * Blocks that are sent to other engines. To one that reaches the device they leave from there. To
 * others they leave from host memory: contents that are only on the device are copied there first,
 * as many at a time as there is room for.
 */
export class BlockSends {
  readonly #books: CacheBooks;
  readonly #shape: { readonly blockTokens: number; readonly groups: number };
  readonly #sends = new Map<number, Send>();
  readonly #begun = new Map<string, PeerJob>();
  /** Host blocks that were made for a spare transfer, by job. */
  readonly #copies = new Set<string>();
  readonly #hostBlocks: number;
  #jobs: PeerJob[] = [];
  #sentBlocks = 0;

  constructor(books: CacheBooks, shape: { blockTokens: number; groups: number }) {
    this.#books = books;
    this.#shape = shape;
    this.#hostBlocks = books.host?.blocks ?? 0;
  }

  /** Blocks that were sent, since the start. */
  get sentBlocks(): number {
    return this.#sentBlocks;
  }

  /**
   * How many of the prompt's first `blocks` blocks could leave a level now, behind the first
   * `from`, which need be stored only: none that is on disk.
   */
  reach({ prompt, from, level }: SendStart, blocks: number): number {
    const chains = this.#chainsOf(prompt);
    let reached = 0;
    for (; reached < blocks; reached++) {
      const nodes = this.#nextOf(chains, reached < from ? "host" : level);
      if (nodes === null) break;
      for (const [group, node] of nodes.entries()) chains[group]?.follow(node);
    }
    return reached;
  }

  /** Begins to send the prompt's blocks from `from` on, under the caller's key. */
  start(transfer: number, given: SendStart): void {
    const { prompt, from, level, isSpare = false, occupation } = given;
    assert(!this.#sends.has(transfer), "Cannot start a transfer twice");
    const counts = { onTheWay: 0, sent: 0, ended: false };
    const chains = this.#chainsOf(prompt);
    const near = new TransferHold(this.#books.occupation, "sent", occupation);
    this.#sends.set(transfer, { chains, from, level, isSpare, near, waiting: [], ...counts });
  }

  /**
   * Takes what is stored of the prompt's first `blocks` blocks, and sends as much as there is room
   * for. Returns how many leading blocks of the prompt were found so far; those farther away than
   * where they are to leave are not followed.
   */
  advance(transfer: number, blocks: number): number {
    const send = this.#sends.get(transfer);
    assert(send !== undefined && !send.ended, "Cannot advance a transfer that is over");
    let found = 0;
    for (;;) {
      found = send.chains[0]?.blocks ?? 0;
      // What no request waits for is held when it goes, and may be evicted until then.
      if (found < blocks && found >= send.from && this.#isBusy(send)) {
        this.#put(transfer, send);
        return blocks;
      }
      const level = found < send.from ? "host" : send.level;
      const nodes = found < blocks ? this.#nextOf(send.chains, level) : null;
      if (nodes === null) break;
      for (const [group, node] of nodes.entries()) {
        send.chains[group]?.follow(node);
        if (found < send.from) continue;
        const block = this.#blockIn(node, send.level);
        this.#books.booksOf(block).pin(block);
        send.near.add(this.#nearness(block));
        const piece = (found - send.from) * this.#shape.groups + group;
        const serial = this.#books.index.serialOf(node);
        send.waiting.push({ piece, block, node, serial });
      }
      if (send.isSpare) this.#put(transfer, send);
    }
    this.#put(transfer, send);
    return found;
  }

  /** Ends a transfer. Blocks on their way stay held until their jobs are finished. */
  end(transfer: number): void {
    const send = this.#sends.get(transfer);
    if (send === undefined || send.ended) return;
    send.ended = true;
    for (const { block } of send.waiting.splice(0).reverse()) this.#give(send, block);
    if (send.onTheWay === 0) this.#sends.delete(transfer);
  }

  /** A transfer's blocks that are on their way, and those it has sent: shows if it stands still. */
  progress(transfer: number): { readonly onTheWay: number; readonly sent: number } {
    const { onTheWay = 0, sent = 0 } = this.#sends.get(transfer) ?? {};
    return { onTheWay, sent };
  }

  /**
   * Ends the transfers that hold blocks of the device: those that leave from there, and those that
   * wait for room in host memory. Returns them.
   */
  yieldDevice(): readonly number[] {
    const ended: number[] = [];
    for (const [transfer, { waiting, level, onTheWay, ended: isOver }] of this.#sends) {
      const waits = waiting.some(({ block }) => this.#books.levelOf(block) === 0);
      if (!isOver && (waits || (level === "device" && onTheWay > 0))) ended.push(transfer);
    }
    for (const transfer of ended) this.end(transfer);
    return ended;
  }

  get hasJobs(): boolean {
    return this.#jobs.length > 0;
  }

  takeJobs(): readonly PeerJob[] {
    const jobs = this.#jobs;
    this.#jobs = [];
    return jobs;
  }

  /** Records the end of a job; where there is room now, further blocks follow. */
  finish({ job, ok }: FinishedPeerJob): void {
    const begun = this.#begun.get(nameOf(job));
    const send = this.#sends.get(job.transfer);
    assert(begun !== undefined && send !== undefined, "Cannot finish a job twice");
    this.#begun.delete(nameOf(job));
    this.#releaseSent(send, begun);
    if (ok) {
      this.#sentBlocks++;
      send.sent++;
    }
    send.onTheWay--;
    if (!send.ended) this.#put(job.transfer, send);
    else if (send.onTheWay === 0) this.#sends.delete(job.transfer);
  }

  /** Blocks that transfers hold. */
  *pinned(): Iterable<BlockId> {
    for (const { waiting } of this.#sends.values()) for (const { block } of waiting) yield block;
    for (const { block } of this.#begun.values()) yield block;
  }

  #chainsOf(prompt: LookUp): readonly StoredChain[] {
    const { blockTokens, groups } = this.#shape;
    return Array.from({ length: groups }, (_, group) => {
      const scope = groupScope(prompt.scope, group);
      return new StoredChain(this.#books, { ...prompt, scope }, blockTokens);
    });
  }

  /** The next block in all groups of layers; null where one of them lacks it near enough. */
  #nextOf(chains: Send["chains"], level: TransferLevel): readonly NodeId[] | null {
    const nodes: NodeId[] = [];
    for (const chain of chains) {
      const node = chain.next();
      if (node === null || !this.#isNear(node, level)) return null;
      nodes.push(node);
    }
    return nodes;
  }

  #isNear(node: NodeId, level: TransferLevel): boolean {
    const { index } = this.#books;
    if (level === "device") return !isEmpty(index.blocksIn(node, 0));
    return this.#books.levelOf(index.blockOf(node)) < 2;
  }

  #blockIn(node: NodeId, level: TransferLevel): BlockId {
    const { index } = this.#books;
    if (level === "device") for (const block of index.blocksIn(node, 0)) return block;
    return index.blockOf(node);
  }

  #put(transfer: number, send: Send): void {
    for (;;) {
      const [first] = send.waiting;
      const isFull = send.level === "host" && send.onTheWay >= this.#onTheWayMax(send);
      if (first === undefined || isFull) return;
      const block = send.level === "device" ? first.block : this.#hostOf(send, first);
      if (block === null) return;
      send.waiting.shift();
      send.onTheWay++;
      const job: PeerJob = { kind: "send", transfer, piece: first.piece, block };
      const isCopy = block !== first.block && send.level === "host";
      if (send.isSpare && isCopy) this.#copies.add(nameOf(job));
      this.#begun.set(nameOf(job), job);
      this.#jobs.push(job);
    }
  }

  /** Whether a spare transfer has as much on its way as it may, or waits for room. */
  #isBusy(send: Send): boolean {
    if (!send.isSpare) return false;
    return send.waiting.length > 0 || send.onTheWay >= this.#onTheWayMax(send);
  }

  #onTheWayMax({ isSpare }: Send): number {
    const most = Math.max(1, Math.floor(this.#hostBlocks / SHARE_ON_THE_WAY));
    if (!isSpare) return most;
    return Math.min(most, Math.max(SPARE_MIN, Math.floor(this.#hostBlocks / SPARE_SHARE)));
  }

  /** A copy that was made for a spare transfer leaves its room to contents that are not nearer. */
  #releaseSent(send: Send, job: PeerJob): void {
    const { index } = this.#books;
    const node = this.#copies.delete(nameOf(job)) ? index.nodeOf(job.block) : null;
    const isNearer = node !== null && !isEmpty(index.blocksIn(node, 0));
    // A copy is in host memory: it is none of the device blocks that are noted.
    if (isNearer) this.#books.giveUp(job.block);
    else this.#give(send, job.block);
  }

  /** A host block with the contents, which takes over the pin; null: no room now. */
  #hostOf(send: Send, { block, node, serial }: Pinned): BlockId | null {
    const { index } = this.#books;
    if (this.#books.levelOf(block) === 1) return block;
    const isStored = () => index.nodeOf(block) === node && index.serialOf(node) === serial;
    if (isStored()) {
      for (const host of index.blocksIn(node, 1)) {
        this.#books.booksOf(host).pin(host);
        this.#give(send, block);
        return host;
      }
    }
    const host = this.#books.takeHost();
    if (host === null) return null;
    // Forgotten contents, as those whose prefix was evicted, are still in the pinned block.
    if (isStored()) this.#books.copyToHost(block, host, node);
    else this.#books.move({ kind: "offload", from: block, to: host });
    // A move reads the block before its next holder's step can write it.
    this.#give(send, block);
    return host;
  }

  #give({ near }: Send, block: BlockId): void {
    this.#books.release(block);
    near.add(-this.#nearness(block));
  }

  /** 1 for a block of the device, else 0. */
  #nearness(block: BlockId): number {
    return this.#books.levelOf(block) === 0 ? 1 : 0;
  }
}

function isEmpty(blocks: Iterable<BlockId>): boolean {
  for (const _ of blocks) return false;
  return true;
}

function nameOf({ transfer, piece }: PeerJob): string {
  return `${transfer}/${piece}`;
}
