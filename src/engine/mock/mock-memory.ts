/** The cache of a worker without a model: the bookkeeping, and times in place of bytes. */
import type { Clock, Timer } from "#base";
import {
  type CacheMoves,
  type DiskJob,
  type FinishedDiskJob,
  KvCache,
  type KvCacheShape,
  LoadCost,
} from "#kvcache";
import { type CostModel, loadMs } from "./cost-model.ts";

/** Parts of a memory. */
export interface MockMemoryParts {
  readonly shape: KvCacheShape;
  readonly model: CostModel;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Called when a job between host memory and disk ended. */
  readonly onFinished: () => void;
}

/** Moves in one direction since the start. */
interface MoveCount {
  blocks: number;
  bytes: number;
  ms: number;
}

/** Transfers to or from disk since the start. */
interface DiskCount {
  count: number;
  bytes: number;
  ms: number;
  failures: number;
}

/** What stands for a measurement of speeds, in blocks. */
const PROBE_BLOCKS = 256;

/** Levels whose blocks have no bytes. A move takes the time of its bytes, and does nothing. */
export class MockMemory {
  /** The bookkeeping, which the scheduler owns once it has it. */
  readonly cache: KvCache;
  /** Costs of fetching and computing, known from the start. */
  readonly cost: LoadCost;
  readonly bytesPerBlock: number;
  readonly #parts: MockMemoryParts;
  readonly #stats = { copy: noMoves(), offload: noMoves(), onboard: noMoves() };
  readonly #disk = { reads: noTransfers(), writes: noTransfers() };
  readonly #underWay = new Map<DiskJob, () => void>();
  #finished: FinishedDiskJob[] = [];
  /** When the disk has done all that it was given. */
  #diskFreeMs = 0;

  constructor(parts: MockMemoryParts) {
    const { model, shape } = parts;
    this.#parts = parts;
    this.cache = new KvCache({ ...shape, nowMs: () => parts.clock.nowMs() });
    this.bytesPerBlock = model.bytesPerToken * shape.blockTokens;
    this.cost = new LoadCost({
      bytesPerBlock: this.bytesPerBlock,
      attentionWeight: model.attentionWeight,
      window: null,
    });
    const bytes = PROBE_BLOCKS * this.bytesPerBlock;
    this.cost.recordCopy(bytes, bytes / model.hostBytesPerMs);
    if (shape.diskBlocks) this.cost.recordRead(bytes, bytes / model.diskBytesPerMs);
  }

  /** The moves and jobs that the bookkeeping decided since the last call. */
  takeMoves(): CacheMoves {
    const { cache } = this;
    return { moves: cache.takeMoves(), jobs: cache.takeDiskJobs(), peerJobs: [] };
  }

  /**
   * Starts the jobs, and returns the milliseconds that the next step waits for the moves: those of
   * blocks that come from host memory. Copies the other way run beside it.
   */
  carryOut({ moves, jobs }: CacheMoves): number {
    const { model } = this.#parts;
    let waitMs = 0;
    for (const { kind } of moves) {
      const ms = kind === "copy" ? 0 : loadMs(model, 1, this.cache.blockTokens);
      const count = this.#stats[kind];
      count.blocks++;
      count.bytes += this.bytesPerBlock;
      count.ms += ms;
      if (kind === "onboard") waitMs += ms;
    }
    for (const job of jobs) this.#start(job);
    return waitMs;
  }

  /** Records disk jobs that ended. Returns the keys of loads that are complete. */
  takeFinishedLoads(): readonly number[] {
    const finished = this.#finished;
    this.#finished = [];
    const loads = finished.flatMap((job) => this.cache.finishDiskJob(job) ?? []);
    this.cache.writeHeads();
    return loads;
  }

  /** Moves since the start, as metrics show them. */
  stats() {
    const { copy, offload, onboard } = this.#stats;
    const { reads, writes } = this.#disk;
    const disk = { reads: { ...reads }, writes: { ...writes } };
    const sent = { bytes: 0, mapped: 0, nixl: 0 };
    const fetched = { pieces: 0, ms: 0 };
    const copies = { copy: { ...copy }, offload: { ...offload }, onboard: { ...onboard } };
    return { ...copies, disk, sent, fetched };
  }

  /** Drops the jobs under way. */
  async close(): Promise<void> {
    for (const cancel of this.#underWay.values()) cancel();
    this.#underWay.clear();
  }

  #start(job: DiskJob): void {
    // Deletions take no time, and are not reported.
    if (job.kind === "delete") return;
    const { model, clock, timer, onFinished } = this.#parts;
    const nowMs = clock.nowMs();
    const ms = this.bytesPerBlock / model.diskBytesPerMs;
    this.#diskFreeMs = Math.max(this.#diskFreeMs, nowMs) + ms;
    const count = this.#disk[job.kind === "read" ? "reads" : "writes"];
    count.count++;
    count.bytes += this.bytesPerBlock;
    count.ms += ms;
    const cancel = timer.after(this.#diskFreeMs - nowMs, () => {
      this.#underWay.delete(job);
      this.#finished.push({ job, ok: true });
      onFinished();
    });
    this.#underWay.set(job, cancel);
  }
}

function noMoves(): MoveCount {
  return { blocks: 0, bytes: 0, ms: 0 };
}

function noTransfers(): DiskCount {
  return { count: 0, bytes: 0, ms: 0, failures: 0 };
}
