import { assert } from "#base";
import type { BlockMove, DiskJob, PeerJob } from "#kvcache";

/** What is decided at one moment, as `CacheMoves` has it. */
interface Decided {
  readonly moves: readonly BlockMove[];
  readonly jobs: readonly DiskJob[];
  readonly peerJobs: readonly PeerJob[];
}

/** A block that leaves the device, and the job that fills its place from another engine. */
interface Replaced {
  readonly move: BlockMove;
  readonly job: PeerJob;
  /** Settles when nothing that was enqueued before uses it. */
  readonly unused: Promise<unknown>;
}

export interface PacedOffloadsOptions {
  /** Blocks that leave together. */
  readonly sliceBlocks: number;
  readonly isOnDevice: (block: number) => boolean;
  /** Settles when all ops and moves that were enqueued are done, or failed. */
  readonly enqueuedDone: () => Promise<unknown>;
  /** Enqueues offloads that ops do not wait for. Settles when they are done; false: they failed. */
  readonly leave: (moves: readonly BlockMove[]) => Promise<boolean>;
  /** Starts jobs whose places are free; not `isFree`: the device failed, and they do. */
  readonly fill: (jobs: readonly PeerJob[], isFree: boolean) => void;
  /** Enqueues moves, then starts jobs behind them. */
  readonly issue: (moves: readonly BlockMove[], jobs: readonly PeerJob[]) => void;
}

/**
 * Makes room for many blocks of another engine without a step that waits for it: an op waits for
 * the moves that were enqueued before it, and a prompt of 8,192 tokens of an 8B model replaces
 * 1 GiB, which takes 20 ms to copy to host memory. No step uses what is replaced here: its place is
 * held for the block that comes. So contents leave beside the steps, slice by slice: the copies of
 * a step's own results wait for no more than a slice. What touches one of these blocks meanwhile,
 * on the device or in host memory, comes after all of them, as if they had left at once.
 */
export class PacedOffloads {
  readonly #options: PacedOffloadsOptions;
  #waiting: Replaced[] = [];
  /** Of `#waiting`: blocks that are left, and those where their contents go. */
  readonly #touched = new Set<number>();
  #isRunning = false;

  constructor(options: PacedOffloadsOptions) {
    assert(options.sliceBlocks > 0, "Cannot move slices of no blocks");
    this.#options = options;
  }

  /** Takes what may wait, and returns the rest, which may be carried out now. */
  take(decided: Decided): Decided {
    if (this.#waiting.length > 0 && blocksOf(decided).some((each) => this.#touched.has(each))) {
      this.flush();
    }
    const replaced = this.#replacedIn(decided);
    if (replaced.length <= this.#options.sliceBlocks) return decided;
    const unused = this.#options.enqueuedDone();
    for (const { move, job } of replaced) {
      this.#waiting.push({ move, job, unused });
      this.#touched.add(move.from).add(move.to);
    }
    const waits = new Set<BlockMove | PeerJob>(replaced.flatMap(({ move, job }) => [move, job]));
    return {
      moves: decided.moves.filter((move) => !waits.has(move)),
      jobs: decided.jobs,
      peerJobs: decided.peerJobs.filter((job) => !waits.has(job)),
    };
  }

  /** Begins with what waits, if it has not; null: nothing new has begun. Never rejects. */
  start(): Promise<void> | null {
    if (this.#isRunning || this.#waiting.length === 0) return null;
    this.#isRunning = true;
    return this.#run();
  }

  /** All that waits leaves now, before whatever is enqueued later. */
  flush(): void {
    const all = this.#next(this.#waiting.length);
    if (all.length > 0) this.#options.issue(movesOf(all), jobsOf(all));
  }

  async #run(): Promise<void> {
    const { sliceBlocks, leave, fill } = this.#options;
    for (let [first] = this.#waiting; first !== undefined; [first] = this.#waiting) {
      await first.unused;
      // All of it may have left meanwhile, and other contents may wait.
      const { unused } = first;
      const count = this.#waiting.findIndex((each) => each.unused !== unused);
      const ready = count < 0 ? this.#waiting.length : count;
      const slice = this.#next(Math.min(sliceBlocks, ready));
      if (slice.length > 0) fill(jobsOf(slice), await leave(movesOf(slice)));
    }
    this.#isRunning = false;
  }

  /** The next blocks that leave. */
  #next(count: number): readonly Replaced[] {
    const slice = this.#waiting.splice(0, count);
    for (const { move } of slice) {
      this.#touched.delete(move.from);
      this.#touched.delete(move.to);
    }
    return slice;
  }

  /** Contents that leave for a block that comes, and that nothing else of this moment touches. */
  #replacedIn({ moves, jobs, peerJobs }: Decided): readonly Omit<Replaced, "unused">[] {
    const { sliceBlocks, isOnDevice } = this.#options;
    const comes = new Map<number, PeerJob>();
    for (const job of peerJobs) {
      if (job.kind === "receive" && isOnDevice(job.block)) comes.set(job.block, job);
    }
    if (comes.size <= sliceBlocks) return [];
    const touches = new Map<number, number>();
    for (const block of blocksOf({ moves, jobs, peerJobs })) {
      touches.set(block, (touches.get(block) ?? 0) + 1);
    }
    return moves.flatMap((move) => {
      const job = comes.get(move.from);
      const isAlone = touches.get(move.from) === 2 && touches.get(move.to) === 1;
      return job !== undefined && move.kind === "offload" && isAlone ? [{ move, job }] : [];
    });
  }
}

function movesOf(slice: readonly Replaced[]): readonly BlockMove[] {
  return slice.map(({ move }) => move);
}

function jobsOf(slice: readonly Replaced[]): readonly PeerJob[] {
  return slice.map(({ job }) => job);
}

/** Blocks of the device and of host memory, once for each move or job that touches them. */
function blocksOf({ moves, jobs, peerJobs }: Decided): readonly number[] {
  return [
    ...moves.flatMap(({ from, to }) => [from, to]),
    ...jobs.flatMap((job) => (job.kind === "delete" ? [] : [job.host])),
    ...peerJobs.map(({ block }) => block),
  ];
}
