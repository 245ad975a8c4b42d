/** Levels of a scripted engine: blocks have no bytes, and jobs of the disk end when a test says so. */
import {
  type CacheMoves,
  type DiskJob,
  type FinishedDiskJob,
  type KvCache,
  LoadCost,
} from "#kvcache";

/** In place of `CacheMemory`. */
export class SlowDisk {
  readonly cost = new LoadCost({ bytesPerBlock: 1, attentionWeight: 0, window: null });
  /** Reads and writes under way, oldest first. */
  readonly underWay: DiskJob[] = [];
  /** Moves that were carried out. */
  moved = 0;
  readonly #cache: KvCache;
  #finished: FinishedDiskJob[] = [];

  constructor(cache: KvCache) {
    this.#cache = cache;
  }

  takeMoves(): CacheMoves {
    const cache = this.#cache;
    return { moves: cache.takeMoves(), jobs: cache.takeDiskJobs(), peerJobs: [] };
  }

  carryOut({ moves, jobs }: CacheMoves): void {
    this.moved += moves.length;
    this.underWay.push(...jobs.filter(({ kind }) => kind !== "delete"));
  }

  takeFinishedLoads(): readonly number[] {
    const finished = this.#finished;
    this.#finished = [];
    const loads = finished.flatMap((job) => this.#cache.finishDiskJob(job) ?? []);
    this.#cache.writeHeads();
    return loads;
  }

  /** Ends all jobs that are under way, or the first `count`. */
  finish(ok = true, count = this.underWay.length): void {
    for (const job of this.underWay.splice(0, count)) this.#finished.push({ job, ok });
  }
}
