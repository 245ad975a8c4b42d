/** Carries out the moves of blocks between device, host memory and disk. */
import { assert, type Clock, type Timer } from "#base";
import type { Device, HostBlocks, KvPool, MovesMark } from "#devices";
import type { BlockMove, DiskJob, FinishedDiskJob, FinishedPeerJob, PeerJob } from "#kvcache";
import type { DevicePulls } from "./device-pulls.ts";
import type { DiskStore } from "./disk-store.ts";
import { type LevelMoverStats, noMoves } from "./move-stats.ts";
import { PacedOffloads } from "./paced-offloads.ts";
import type { PeerLink } from "./peer-link.ts";

/** A part of each block: its bytes on the device and in host memory. */
export interface BlockPart {
  readonly cache: KvPool;
  /** Null: there is no host memory for blocks, so only copies are possible. */
  readonly host: HostBlocks | null;
}

/**
 * Parts of a mover. Ids of moves and jobs count device blocks first, then host blocks, those of
 * the first part of `BlockPart`.
 */
export interface LevelMoverOptions extends BlockPart {
  readonly device: Device;
  /**
   * The rest of each block, as a drafter's keys and values: has host memory where the first part
   * has. Default: null, there is none.
   */
  readonly beside?: BlockPart | null;
  /** Null: there is no disk level. The mover closes it in `drain`. */
  readonly store: DiskStore | null;
  /** Carries blocks to other engines and from them. Default: null, they stay here. */
  readonly peers?: PeerLink | null;
  /** Copies blocks from other engines' devices. Default: null, nothing is. */
  readonly pulls?: DevicePulls | null;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Most bytes that leave the device together for blocks that come. Default: 64 MiB. */
  readonly pacedBytes?: number;
  /** Called whenever `takeFinished` has something new. */
  readonly onFinished: () => void;
}

/** How a job ended. */
type JobOutcome = Omit<FinishedDiskJob, "job">;

/** Most blocks that `measure` copies: a few milliseconds of work. */
const MEASURED_BLOCKS_MAX = 16;
const FIRST_PAIRS = 64;
/** Poll interval for a device's moves: short compared with a disk read. */
const MOVES_LOOK_MS = 1;
/** One slice takes 1.3 ms by PCIe 5; one leaves per step, since this thread waits for each. */
const PACED_BYTES = 64 << 20;

/** The bytes of all levels. One per engine. */
export class LevelMover {
  readonly #options: LevelMoverOptions;
  readonly #parts: readonly BlockPart[];
  readonly #bytesPerBlock: number;
  readonly #stats = { copy: noMoves(), offload: noMoves(), onboard: noMoves() };
  /** [n, 2] of one call: from, to. Grown by doubling, kept from step to step. */
  #pairs = new Int32Array(2 * FIRST_PAIRS);
  /** Settles when all jobs so far have been submitted to the store, in order. */
  #handedOver: Promise<void> = Promise.resolve();
  readonly #underWay = new Set<Promise<void>>();
  readonly #paced: PacedOffloads;
  /** Settles when nothing waits there. */
  #pacing: Promise<void> = Promise.resolve();
  #finished: FinishedDiskJob[] = [];
  #finishedPeers: FinishedPeerJob[] = [];
  /** The error after which nothing is moved. */
  #failure: { readonly error: unknown } | null = null;
  #draining = false;

  constructor(options: LevelMoverOptions) {
    const { cache, host, beside = null, pacedBytes = PACED_BYTES } = options;
    this.#options = options;
    this.#parts = beside === null ? [{ cache, host }] : [{ cache, host }, beside];
    this.#bytesPerBlock = this.#parts.reduce((sum, part) => sum + part.cache.bytesPerBlock, 0);
    this.#paced = new PacedOffloads({
      sliceBlocks: Math.max(1, Math.floor(pacedBytes / this.#bytesPerBlock)),
      isOnDevice: (block) => this.#isOnDevice(block),
      enqueuedDone: () => this.#areDone(this.#mark("markOps")),
      leave: (moves) => this.#leave(moves),
      fill: (jobs, isFree) => this.#fill(jobs, Promise.resolve(isFree)),
      issue: (moves, peerJobs) => {
        if (this.#failure === null) this.#tryToMove(moves);
        this.#submitNear(peerJobs);
      },
    });
  }

  stats(): LevelMoverStats {
    const { copy, offload, onboard } = this.#stats;
    const disk = this.#options.store?.stats() ?? null;
    return { copy: { ...copy }, offload: { ...offload }, onboard: { ...onboard }, disk };
  }

  /**
   * Copies some blocks to host memory and back, and returns the bytes and milliseconds; null
   * without host memory. Overwrites the first host blocks, so it must come before the first move.
   */
  async measure(): Promise<{ readonly bytes: number; readonly ms: number } | null> {
    const { device, cache, host, clock } = this.#options;
    if (host === null) return null;
    const count = Math.min(MEASURED_BLOCKS_MAX, cache.blocks, host.blocks);
    const pairs = Int32Array.from({ length: 2 * count }, (_, index) => index >> 1);
    const round = async () => {
      this.#eachHost((cache, host) => device.offloadBlocks(cache, host, pairs));
      this.#eachHost((cache, host) => device.onboardBlocks(cache, host, pairs));
      await device.synchronize();
    };
    // The first round includes the cost of untouched pages.
    await round();
    const start = clock.nowMs();
    await round();
    return { bytes: 2 * count * this.#bytesPerBlock, ms: clock.nowMs() - start };
  }

  /**
   * Carries out the cache's decisions, all at once: `takeMoves` and `takeDiskJobs` of one moment,
   * one call after the other. The moves run on the device, in order, before the caller's next work,
   * but for those of `PacedOffloads`. Jobs are started after them, in order; host blocks of reads
   * and writes must stay held and unchanged until `takeFinished` returns the job.
   *
   * Throws a move's error. Blocks then differ from the bookkeeping on every level but the disk:
   * this call and all later ones move nothing more and throw the same, and their jobs are returned
   * as failed, except deletions, which are done.
   */
  carryOut(
    moves: readonly BlockMove[],
    jobs: readonly DiskJob[],
    peerJobs: readonly PeerJob[] = [],
  ): void {
    const now = this.#paced.take({ moves, jobs, peerJobs });
    if (this.#failure === null) this.#tryToMove(now.moves);
    // Even if a move failed: the caller waits for the end of each job.
    if (jobs.length + now.peerJobs.length > 0) this.#submit(jobs, now.peerJobs);
    const paced = this.#paced.start();
    if (paced !== null) {
      this.#pacing = paced;
      const running: Promise<void> = paced.then(() => void this.#underWay.delete(running));
      this.#underWay.add(running);
    }
    if (this.#failure !== null) throw this.#failure.error;
  }

  /** Jobs that ended since the last call, in the order of their ends. */
  takeFinished(): readonly FinishedDiskJob[] {
    const finished = this.#finished;
    this.#finished = [];
    return finished;
  }

  /** The same of jobs with other engines. */
  takeFinishedPeers(): readonly FinishedPeerJob[] {
    const finished = this.#finishedPeers;
    this.#finishedPeers = [];
    return finished;
  }

  /**
   * Settles when all submitted jobs have ended. Once `until` is aborted, jobs that have not begun
   * are dropped, then and later. Jobs that have begun are always awaited: they use host memory,
   * which may be released only after this.
   */
  async idle(until?: AbortSignal): Promise<void> {
    const { store } = this.#options;
    const cancel = () => store?.cancel();
    if (until?.aborted === true) cancel();
    until?.addEventListener("abort", cancel, { once: true });
    this.#paced.flush();
    await this.#handedOver;
    // A slice that is leaving has jobs that begin when it has left.
    await this.#pacing;
    await Promise.all(this.#underWay);
    until?.removeEventListener("abort", cancel);
  }

  /** Settles when one of the jobs under way has ended, at once where none is. */
  async oneEnded(): Promise<void> {
    await this.#handedOver;
    if (this.#finished.length === 0 && this.#underWay.size > 0) await Promise.race(this.#underWay);
  }

  /** Finishes all jobs as `idle` does, closes the store, and takes no more. */
  async drain(until?: AbortSignal): Promise<void> {
    this.#draining = true;
    await this.idle(until);
    await this.#options.store?.close();
  }

  #submit(jobs: readonly DiskJob[], allPeerJobs: readonly PeerJob[]): void {
    assert(!this.#draining, "Cannot start a job: the levels are being closed");
    const peerJobs = allPeerJobs.filter(({ block }) => !this.#isOnDevice(block));
    this.#submitNear(allPeerJobs.filter(({ block }) => this.#isOnDevice(block)));
    if (jobs.length + peerJobs.length === 0) return;
    // A device may lag: a block to write to disk may not be in host memory yet, and a block that a
    // read overwrites may not be on the device yet.
    const needsHost = peerJobs.length > 0 || jobs.some(({ kind }) => kind !== "delete");
    // Marked now, before the next step is enqueued: that one need not be waited for.
    const mark = needsHost ? this.#mark() : null;
    // Jobs start in order, else a deletion could overtake the write of its block.
    this.#handedOver = this.#handedOver.then(async () => {
      const isReady = mark === null || (await this.#areDone(mark));
      for (const job of jobs) this.#start(job, this.#outcomeOf(job, isReady));
      for (const job of peerJobs) this.#endPeer(job, isReady ? this.#carryPeer(job) : null);
    });
  }

  /** Jobs of the device's blocks, which steps and moves that were enqueued may still use. */
  #submitNear(jobs: readonly PeerJob[]): void {
    if (jobs.length > 0) this.#fill(jobs, this.#areDone(this.#mark("markOps")));
  }

  /** Carries jobs of the device's blocks out once these are free; false: the device failed. */
  #fill(jobs: readonly PeerJob[], free: Promise<boolean>): void {
    for (const job of jobs) {
      const carried = free.then((isFree) => isFree && this.#carryNear(job));
      this.#endPeer(job, carried);
    }
  }

  /** Offloads that no step waits for. */
  async #leave(moves: readonly BlockMove[]): Promise<boolean> {
    const marks: MovesMark[] = [];
    if (this.#failure === null) this.#tryToMove(moves, marks);
    if (this.#failure !== null) return false;
    return await this.#areDone({ isDone: () => marks.every((mark) => mark.isDone()) });
  }

  #isOnDevice(block: number): boolean {
    return block < this.#options.cache.blocks;
  }

  /** Marks the end of all moves so far. `failed`: the device failed, which its steps report. */
  #mark(what: "markMoves" | "markOps" = "markMoves"): MovesMark | "failed" {
    if (this.#failure !== null) return "failed";
    try {
      return this.#options.device[what]();
    } catch {
      return "failed";
    }
  }

  /**
   * Waits until moves are done; false: the device failed, which its steps report. This thread
   * continues with steps meanwhile.
   */
  async #areDone(mark: MovesMark | "failed"): Promise<boolean> {
    const { timer } = this.#options;
    if (mark === "failed") return false;
    try {
      while (!mark.isDone()) {
        await new Promise<void>((resolve) => timer.after(MOVES_LOOK_MS, resolve));
      }
      return true;
    } catch {
      return false;
    }
  }

  /** Moves in their order, up to one that fails. `beside`: no op waits; gets their marks. */
  #tryToMove(moves: readonly BlockMove[], beside: MovesMark[] | null = null): void {
    try {
      for (let start = 0; start < moves.length; ) {
        const kind = moves[start]?.kind;
        let end = start + 1;
        while (end < moves.length && moves[end]?.kind === kind) end++;
        this.#moveRun(moves.slice(start, end), beside);
        start = end;
      }
    } catch (error) {
      this.#failure = { error };
    }
  }

  #moveRun(moves: readonly BlockMove[], beside: MovesMark[] | null): void {
    const [first] = moves;
    if (first === undefined) return;
    const { device, clock } = this.#options;
    const { kind } = first;
    const pairs = this.#pairsOf(moves);
    const start = clock.nowMs();
    if (kind === "copy") for (const { cache } of this.#parts) device.copyBlocks(cache, pairs);
    else if (kind === "offload") {
      this.#eachHost((cache, host) => {
        if (beside === null) device.offloadBlocks(cache, host, pairs);
        else beside.push(device.offloadBeside(cache, host, pairs));
      });
    } else this.#eachHost((cache, host) => device.onboardBlocks(cache, host, pairs));
    const stats = this.#stats[kind];
    stats.blocks += moves.length;
    stats.bytes += moves.length * this.#bytesPerBlock;
    stats.ms += clock.nowMs() - start;
  }

  #eachHost(move: (cache: KvPool, host: HostBlocks) => void): void {
    for (const { cache, host } of this.#parts) {
      assert(host !== null, "Cannot move blocks to host memory: it has none");
      move(cache, host);
    }
  }

  /** Converts ids to indices in their own level. */
  #pairsOf(moves: readonly BlockMove[]): Int32Array {
    if (this.#pairs.length < 2 * moves.length) this.#pairs = new Int32Array(4 * moves.length);
    for (const [index, { kind, from, to }] of moves.entries()) {
      this.#pairs[2 * index] = kind === "onboard" ? this.#hostIndex(from) : from;
      this.#pairs[2 * index + 1] = kind === "offload" ? this.#hostIndex(to) : to;
    }
    return this.#pairs.subarray(0, 2 * moves.length);
  }

  #hostIndex(block: number): number {
    const { cache, host } = this.#options;
    const index = block - cache.blocks;
    assert(host !== null && index >= 0 && index < host.blocks, `Block ${block} is not on the host`);
    return index;
  }

  /** Carries a job out; not `isReady`: the device failed, and host memory may hold anything. */
  async #outcomeOf(job: DiskJob, isReady: boolean): Promise<JobOutcome> {
    const { kind, file } = job;
    const { store } = this.#options;
    assert(store !== null, "Cannot move blocks to a disk level that is off");
    if (kind === "delete") return { ok: await store.remove(file.key) };
    if (!isReady) return failed(job);
    const parts = this.#bytesOf(job.host);
    const [first] = parts;
    // Several parts lie behind each other in the file.
    const bytes = parts.length === 1 && first !== undefined ? first : Buffer.concat(parts);
    if (kind === "write") return { ok: await store.write(file, bytes) };
    const outcome = await store.read(file, bytes);
    if (outcome === "read" && bytes !== first) spread(bytes, parts);
    return outcome === "unreadable" ? failed(job) : { ok: outcome === "read" };
  }

  /** A failing disk is an outcome; an error is a bug, and the next call throws it. */
  #start(job: DiskJob, carriedOut: Promise<JobOutcome>): void {
    const running = carriedOut
      .catch((error: unknown) => {
        this.#failure ??= { error };
        return failed(job);
      })
      .then((outcome) => {
        this.#underWay.delete(running);
        this.#finished.push({ job, ...outcome });
        this.#options.onFinished();
      });
    this.#underWay.add(running);
  }

  #carryPeer(job: PeerJob): Promise<boolean> {
    const { peers = null } = this.#options;
    assert(peers !== null, "Cannot move blocks to other engines: there is no way to them");
    return peers[job.kind](job, this.#bytesOf(job.block));
  }

  #carryNear(job: PeerJob): Promise<boolean> {
    const { peers = null, pulls = null } = this.#options;
    assert(peers !== null && pulls !== null, "Cannot reach other engines' devices");
    if (job.kind === "send") return peers.sendPlaced(job, pulls.placesOf(job.block));
    return peers.receivePlaced(job, this.#bytesPerBlock, (from) => pulls.pull(job.block, from));
  }

  /** An error of the link is a failed transfer: it says why where it happened. */
  #endPeer(job: PeerJob, carried: Promise<boolean> | null): void {
    const running = (carried ?? Promise.resolve(false))
      .catch(() => false)
      .then((ok) => {
        this.#underWay.delete(running);
        this.#finishedPeers.push({ job, ok });
        this.#options.onFinished();
      });
    this.#underWay.add(running);
  }

  /** Of each part, one after the other. */
  #bytesOf(block: number): readonly Uint8Array[] {
    const index = this.#hostIndex(block);
    return this.#parts.map(({ host }) => {
      assert(host !== null, "Cannot move blocks to host memory: it has none");
      return this.#options.device.hostBlock(host, index);
    });
  }
}

/** The inverse of `Buffer.concat`. */
function spread(bytes: Uint8Array, parts: readonly Uint8Array[]): void {
  let start = 0;
  for (const part of parts) {
    part.set(bytes.subarray(start, start + part.length));
    start += part.length;
  }
}

/** The outcome of a failed job: the state of its file is unknown. */
function failed({ kind }: DiskJob): JobOutcome {
  return kind === "read" ? { ok: false, unreadable: true } : { ok: false };
}
