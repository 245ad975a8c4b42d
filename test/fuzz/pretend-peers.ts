/**
 * Other engines of a random life: blocks go to them and come from them, in any order, whole or not.
 * What leaves must be what the piece should have, and must not change until its job ends.
 */
import { assert } from "#base";
import type { KvCache, LookUp, PeerJob, TransferLevel } from "#kvcache";
import { digestIn } from "./pretend-sequence.ts";

/** The bytes behind the blocks of a life: a digest for each position. */
interface Slots {
  read(block: number, offset: number): number;
  write(block: number, offset: number, digest: number): void;
}

/** A prompt, and the digest of each of its positions. */
export interface TravellingPrompt {
  readonly prompt: LookUp;
  readonly digests: readonly number[];
}

interface Transfer extends TravellingPrompt {
  readonly id: number;
  readonly kind: PeerJob["kind"];
  readonly from: number;
  readonly blocks: number;
  ended: boolean;
}

/** Blocks that went, and that came. */
export interface TravelCounts {
  sent: number;
  received: number;
  /** Transfers that ended before all of their jobs had. */
  cut: number;
}

export class PretendPeers {
  readonly counts: TravelCounts = { sent: 0, received: 0, cut: 0 };
  readonly #cache: KvCache;
  readonly #slots: Slots;
  readonly #below: (limit: number) => number;
  readonly #transfers = new Map<number, Transfer>();
  #jobs: PeerJob[] = [];
  #nextId = 1;

  constructor(cache: KvCache, slots: Slots, below: (limit: number) => number) {
    this.#cache = cache;
    this.#slots = slots;
    this.#below = below;
  }

  get jobCount(): number {
    return this.#jobs.length;
  }

  /** Transfers that have not ended. */
  get liveCount(): number {
    return this.#live.length;
  }

  /** Another engine asks for a prompt's blocks: all, or those behind some. */
  startSend(travelling: TravellingPrompt): boolean {
    const blocks = this.#blocksOf(travelling);
    if (blocks === 0) return false;
    const from = this.#below(3) === 0 ? this.#below(blocks) : 0;
    const transfer = this.#add("send", travelling, { from, blocks });
    const { prompt } = travelling;
    this.#cache.peers.sends.start(transfer.id, { prompt, from, level: this.#level() });
    this.#advance(transfer);
    return true;
  }

  /** A prompt's blocks behind those that are stored are to come. */
  startReceive(travelling: TravellingPrompt): boolean {
    const { scope, tokens, keys } = travelling.prompt;
    const from = this.#cache.match(scope, tokens, keys).blocks.length;
    const to = this.#blocksOf(travelling);
    if (to <= from) return false;
    const { prompt } = travelling;
    const start = { from, to, level: this.#level() };
    const room = this.#cache.peers.receives.start(this.#nextId, prompt, start);
    if (room === 0) return false;
    this.#add("receive", travelling, { from, blocks: from + room });
    return true;
  }

  /** What is stored by now follows, of one of the prompts that are sent. */
  advance(): boolean {
    const sends = this.#live.filter(({ kind }) => kind === "send");
    const transfer = sends[this.#below(Math.max(1, sends.length))];
    if (transfer === undefined) return false;
    this.#advance(transfer);
    return true;
  }

  /** The other engine gives up, or has all that it wanted. */
  endOne(): boolean {
    const live = this.#live;
    const transfer = live[this.#below(Math.max(1, live.length))];
    if (transfer === undefined) return false;
    this.#end(transfer);
    return true;
  }

  /** Jobs begin: one that receives may change its host block from now on, to anything. */
  start(jobs: readonly PeerJob[]): void {
    for (const job of jobs) {
      if (job.kind === "receive") this.#fill(job, () => Number.NaN);
      else this.#checkSent(job);
      this.#jobs.push(job);
    }
  }

  /** Ends any of the jobs. */
  finishJob(fails: boolean): boolean {
    const [job] = this.#jobs.splice(this.#below(Math.max(1, this.#jobs.length)), 1);
    if (job === undefined) return false;
    if (job.kind === "send") this.#checkSent(job);
    else if (!fails) this.#fill(job, (position, group) => this.#digest(job, position, group));
    const ended = this.#cache.peers.finish({ job, ok: !fails });
    if (!fails) this.counts[job.kind === "send" ? "sent" : "received"]++;
    const transfer = this.#transfers.get(job.transfer);
    assert(transfer !== undefined, "A job of no transfer has ended");
    if (ended !== null && !transfer.ended) this.#checkReceived(transfer, ended.blocks);
    return true;
  }

  /** All transfers end; their jobs follow. */
  endAll(): void {
    for (const transfer of this.#live) this.#end(transfer);
  }

  /** Half of the engines reach this one's device. */
  #level(): TransferLevel {
    return this.#below(2) === 0 ? "device" : "host";
  }

  get #live(): Transfer[] {
    return [...this.#transfers.values()].filter(({ ended }) => !ended);
  }

  #add(
    kind: Transfer["kind"],
    travelling: TravellingPrompt,
    place: Pick<Transfer, "from" | "blocks">,
  ): Transfer {
    const transfer = { id: this.#nextId++, kind, ended: false, ...travelling, ...place };
    this.#transfers.set(transfer.id, transfer);
    return transfer;
  }

  #advance({ id, blocks }: Transfer): void {
    const found = this.#cache.peers.sends.advance(id, blocks);
    assert(found <= blocks, "More is found than the prompt has");
  }

  #end(transfer: Transfer): void {
    const { id, kind } = transfer;
    transfer.ended = true;
    if (this.#jobs.some((job) => job.transfer === id)) this.counts.cut++;
    this.#cache.peers[kind === "send" ? "sends" : "receives"].end(id);
  }

  /** What a transfer brought stays while it holds it. */
  #checkReceived({ prompt, digests, from }: Transfer, blocks: number): void {
    assert(blocks >= from, "A transfer brought less than there was");
    const { scope, tokens, keys } = prompt;
    const match = this.#cache.match(scope, Int32Array.of(...tokens, 0), keys);
    // Another group of layers may have less: what this one has behind is not counted.
    for (const [index, block] of match.blocks.slice(0, blocks).entries()) {
      this.#checkBlock(block, { index, group: 0 }, digests);
    }
  }

  #checkSent(job: PeerJob): void {
    const transfer = this.#of(job);
    this.#checkBlock(job.block, this.#placeOf(job, transfer), transfer.digests);
  }

  #checkBlock(
    block: number,
    { index, group }: { readonly index: number; readonly group: number },
    digests: readonly number[],
  ): void {
    const { blockTokens } = this.#cache;
    // The last block may be filled in part: the rest is anything.
    const count = Math.min(blockTokens, digests.length - index * blockTokens);
    for (let offset = 0; offset < count; offset++) {
      const expected = digestIn(digests[index * blockTokens + offset] ?? Number.NaN, group);
      if (this.#slots.read(block, offset) === expected) continue;
      throw new Error(`Block ${index} of a transfer has another history's keys and values`);
    }
  }

  #fill(job: PeerJob, digestAt: (offset: number, group: number) => number): void {
    const { group } = this.#placeOf(job, this.#of(job));
    for (let offset = 0; offset < this.#cache.blockTokens; offset++) {
      this.#slots.write(job.block, offset, digestAt(offset, group));
    }
  }

  #digest(job: PeerJob, offset: number, group: number): number {
    const transfer = this.#of(job);
    const { index } = this.#placeOf(job, transfer);
    return digestIn(transfer.digests[index * this.#cache.blockTokens + offset] ?? 0, group);
  }

  #placeOf({ piece }: PeerJob, { from }: Transfer): { index: number; group: number } {
    const groups = this.#cache.groupCount;
    return { index: from + Math.floor(piece / groups), group: piece % groups };
  }

  #of({ transfer }: PeerJob): Transfer {
    const found = this.#transfers.get(transfer);
    assert(found !== undefined, "A job belongs to no transfer");
    return found;
  }

  /** Full blocks, and the partly filled last one half of the time. */
  #blocksOf({ prompt }: TravellingPrompt): number {
    const whole = prompt.tokens.length / this.#cache.blockTokens;
    const tails = this.#cache.storesTails && this.#below(2) === 0;
    return tails ? Math.ceil(whole) : Math.floor(whole);
  }
}
