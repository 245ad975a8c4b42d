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

/**
 * Of the host level, what all transfers together may take: 3 / 4. Engines that fetch from each
 * other would wait for ever where no room is left to send from.
 */
const ROOM_SHARE = 0.75;

/** The same of the device: sequences that run have the rest. */
const DEVICE_SHARE = 0.5;

/** Of the device's blocks that are free or cached, as many stay for sequences that run. */
const DEVICE_LEFT_SHARE = 1 / 16;

/** A prompt's blocks [from, to), of which the last may be a part, and where they arrive. */
interface ReceiveStart {
  readonly from: number;
  readonly to: number;
  readonly level: TransferLevel;
  /** Of the sequence that the blocks are for. Default: a new one. */
  readonly occupation?: Occupation;
}

/** Blocks of one prompt that are received. */
interface Receive {
  /** Blocks that it took, and of which level. */
  readonly room: number;
  readonly level: TransferLevel;
  /** Blocks of the device among those that it holds. */
  readonly near: TransferHold;
  readonly chains: readonly StoredChain[];
  /** The first block that is received. */
  readonly from: number;
  /** Blocks to be filled, by piece. */
  readonly expected: Map<number, BlockId>;
  /** Filled, and waiting for those before them, by piece. */
  readonly filled: Map<number, BlockId>;
  /** The stored prefix, and blocks that were stored: held, so that it stays whole. */
  readonly held: BlockId[];
  /** Those that are a part of a block: of no use once a sequence has its own copy. */
  readonly parts: BlockId[];
  /** The first piece that did not come: none from it on can be stored. */
  brokenFrom: number;
  ended: boolean;
}

/** What a transfer brought, when all of its jobs are over. */
export interface EndedReceive {
  readonly transfer: number;
  /** Leading blocks of the prompt that are stored now, those that were before it included. */
  readonly blocks: number;
}

/**
 * Blocks that come from other engines, into host memory or onto the device. They are stored in the
 * order of the prompt, and found by its sequences like blocks that were computed here; until `end`
 * they stay.
 */
export class BlockReceives {
  readonly #books: CacheBooks;
  readonly #shape: { readonly blockTokens: number; readonly groups: number };
  readonly #receives = new Map<number, Receive>();
  /** Blocks that all transfers may take, beside those that they have. */
  readonly #roomLeft: Record<TransferLevel, number>;
  #jobs: PeerJob[] = [];
  #receivedBlocks = 0;
  #missedBlocks = 0;

  constructor(books: CacheBooks, shape: { blockTokens: number; groups: number }) {
    this.#books = books;
    this.#shape = shape;
    this.#roomLeft = {
      host: Math.floor((books.host?.blocks ?? 0) * ROOM_SHARE),
      device: Math.floor(books.device.blocks * DEVICE_SHARE),
    };
  }

  /** Blocks that were received and stored, since the start. */
  get receivedBlocks(): number {
    return this.#receivedBlocks;
  }

  /** Blocks that were to come, and did not, since the start. */
  get missedBlocks(): number {
    return this.#missedBlocks;
  }

  /**
   * Holds the prompt's stored prefix of `from` blocks, and takes room for those up to `to`. Returns
   * how many there is room for; 0: none, or the prefix is not stored, and nothing has begun. On the
   * device there is room for all or none.
   */
  start(transfer: number, prompt: LookUp, { from, to, level, occupation }: ReceiveStart): number {
    assert(!this.#receives.has(transfer), "Cannot start a transfer twice");
    const { blockTokens, groups } = this.#shape;
    const chains = Array.from({ length: groups }, (_, group) => {
      const scope = groupScope(prompt.scope, group);
      return new StoredChain(this.#books, { ...prompt, scope }, blockTokens);
    });
    const held: BlockId[] = [];
    const near = new TransferHold(this.#books.occupation, "received", occupation);
    const isHeld = chains.every((chain) => this.#holdPrefix(chain, from, held));
    const pieces = isHeld && this.#hasRoom((to - from) * groups, level) ? (to - from) * groups : 0;
    const expected = this.#takeRoom(pieces, level);
    if (expected.size === 0) {
      this.#releaseAll(held);
      return 0;
    }
    const room = expected.size;
    this.#roomLeft[level] -= room;
    const rest = { filled: new Map(), brokenFrom: Number.POSITIVE_INFINITY, ended: false };
    const own = { chains, from, expected, held, parts: [] };
    this.#receives.set(transfer, { room, level, near, ...own, ...rest });
    near.add(this.#nearOf(held) + (level === "device" ? room : 0));
    for (const [piece, block] of expected) {
      this.#jobs.push({ kind: "receive", transfer, piece, block });
    }
    return expected.size / groups;
  }

  get hasJobs(): boolean {
    return this.#jobs.length > 0;
  }

  takeJobs(): readonly PeerJob[] {
    const jobs = this.#jobs;
    this.#jobs = [];
    return jobs;
  }

  /** Records the end of a job. Returns what the transfer brought once it was the last. */
  finish({ job, ok }: FinishedPeerJob): EndedReceive | null {
    const { transfer, piece } = job;
    const receive = this.#receives.get(transfer);
    const host = receive?.expected.get(piece);
    assert(receive !== undefined && host !== undefined, "Cannot finish a job twice");
    receive.expected.delete(piece);
    if (!ok) {
      if (!receive.ended) this.#missedBlocks++;
      receive.brokenFrom = Math.min(receive.brokenFrom, piece);
    }
    if (piece >= receive.brokenFrom || receive.ended) this.#give(receive, [host]);
    else {
      receive.filled.set(piece, host);
      this.#store(receive);
    }
    if (receive.expected.size > 0) return null;
    this.#give(receive, [...receive.filled.values()]);
    receive.filled.clear();
    if (receive.ended) this.#forget(transfer, receive);
    return { transfer, blocks: Math.min(...receive.chains.map(({ blocks }) => blocks)) };
  }

  /** Releases what the transfer holds. Rooms of jobs under way follow when these are finished. */
  end(transfer: number): void {
    const receive = this.#receives.get(transfer);
    if (receive === undefined || receive.ended) return;
    receive.ended = true;
    this.#give(receive, [...receive.filled.values()]);
    receive.filled.clear();
    this.#give(receive, receive.held.splice(0));
    for (const block of receive.parts) {
      const books = this.#books.booksOf(block);
      if (books.holders(block) === 0 && books.isPublished(block)) this.#books.demote(block);
    }
    if (receive.expected.size === 0) this.#forget(transfer, receive);
  }

  /**
   * Releases the blocks of the device that transfers hold: where they are evicted, what comes
   * behind them is dropped. Returns whether there were any.
   */
  yieldDevice(): boolean {
    let yielded = false;
    for (const receive of this.#receives.values()) {
      const { held } = receive;
      const near = held.filter((block) => this.#books.levelOf(block) === 0);
      if (near.length === 0) continue;
      yielded = true;
      const kept = held.filter((block) => this.#books.levelOf(block) !== 0);
      held.splice(0, held.length, ...kept);
      this.#give(receive, near);
    }
    return yielded;
  }

  /** Blocks that transfers hold. */
  *pinned(): Iterable<BlockId> {
    for (const { expected, filled, held } of this.#receives.values()) {
      yield* held;
      yield* expected.values();
      yield* filled.values();
    }
  }

  #forget(transfer: number, { room, level }: Receive): void {
    this.#receives.delete(transfer);
    this.#roomLeft[level] += room;
  }

  /** Follows a chain to its block `from`, and holds its blocks; false: it is not stored. */
  #holdPrefix(chain: StoredChain, from: number, held: BlockId[]): boolean {
    while (chain.blocks < from) {
      const node = chain.next();
      if (node === null || !this.#hold(node, held)) return false;
      chain.follow(node);
    }
    return true;
  }

  #hold(node: NodeId, held: BlockId[]): boolean {
    const block = this.#books.index.blockOf(node);
    if (this.#books.levelOf(block) === 2) return false;
    this.#books.booksOf(block).pin(block);
    held.push(block);
    return true;
  }

  /** Whether a transfer of so many pieces may begin: host memory may hold its beginning alone. */
  #hasRoom(pieces: number, level: TransferLevel): boolean {
    if (level === "host") return true;
    const { availableCount, blocks } = this.#books.device;
    const left = Math.ceil(blocks * DEVICE_LEFT_SHARE);
    return pieces <= Math.min(this.#roomLeft.device, availableCount - left);
  }

  /** As many blocks as there are and may be taken, whole positions only. */
  #takeRoom(pieces: number, level: TransferLevel): Map<number, BlockId> {
    const room = new Map<number, BlockId>();
    while (room.size < Math.min(pieces, this.#roomLeft[level])) {
      const block = level === "device" ? this.#books.device.take() : this.#books.takeHost();
      if (block === null) break;
      room.set(room.size, block);
    }
    while (room.size % this.#shape.groups > 0) {
      const block = room.get(room.size - 1);
      room.delete(room.size - 1);
      if (block !== undefined) this.#books.release(block);
    }
    return room;
  }

  /** Stores the blocks that have come, up to the first one that has not. */
  #store(receive: Receive): void {
    const { chains, filled, from } = receive;
    const { groups } = this.#shape;
    for (;;) {
      const blocks = chains[0]?.blocks ?? 0;
      const first = (blocks - from) * groups;
      for (let group = 0; group < groups; group++) if (!filled.has(first + group)) return;
      for (const [group, chain] of chains.entries()) {
        const host = filled.get(first + group);
        assert(host !== undefined, "Cannot store a block that has not come");
        filled.delete(first + group);
        if (!this.#storeOne(receive, chain, host)) receive.brokenFrom = 0;
      }
      if (receive.brokenFrom === 0) {
        this.#give(receive, [...filled.values()]);
        filled.clear();
        return;
      }
    }
  }

  /** False: its prefix was forgotten meanwhile, or stored contents cannot be held. */
  #storeOne(receive: Receive, chain: StoredChain, host: BlockId): boolean {
    const { held, parts, near } = receive;
    const { index } = this.#books;
    const place = chain.nextPlace;
    const known = chain.next();
    if (place === null || known !== null) this.#give(receive, [host]);
    if (place === null) return false;
    if (known !== null) {
      // It was computed here meanwhile.
      chain.follow(known);
      if (!this.#hold(known, held)) return false;
      near.add(this.#nearOf(held.slice(-1)));
      return true;
    }
    if (chain.nextTokens < this.#shape.blockTokens) parts.push(host);
    const node = index.insert(place, host);
    this.#books.booksOf(host).publish(host);
    chain.follow(node);
    held.push(host);
    if (this.#books.levelOf(host) === 1) this.#books.cameToHost(host, node);
    this.#receivedBlocks++;
    return true;
  }

  /** Of these blocks, those of the device. */
  #nearOf(blocks: readonly BlockId[]): number {
    return blocks.filter((block) => this.#books.levelOf(block) === 0).length;
  }

  /** Releases blocks of a transfer that has begun. */
  #give({ near }: Receive, blocks: readonly BlockId[]): void {
    this.#releaseAll(blocks);
    near.add(-this.#nearOf(blocks));
  }

  /** The last first, so that tails are evicted before heads. */
  #releaseAll(blocks: readonly BlockId[]): void {
    for (const block of blocks.toReversed()) this.#books.release(block);
  }
}
