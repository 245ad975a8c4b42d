import { assert, type Timer } from "#base";
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
}

export interface PacedOffloadsOptions {
  /** Blocks that leave together. */
  readonly sliceBlocks: number;
  readonly isOnDevice: (block: number) => boolean;
  /** Enqueues moves, then starts jobs behind them. */
  readonly issue: (moves: readonly BlockMove[], jobs: readonly PeerJob[]) => void;
  /** Settles when all moves that were enqueued are done, or failed. */
  readonly moved: () => Promise<void>;
  readonly timer: Timer;
}

/** Between two slices: a step that waits to be enqueued comes first. */
const PAUSE_MS = 1;

/**
 * Makes room for many blocks of another engine without a step that waits for all of it: an op waits
 * for what was enqueued before it, and a prompt of 8,192 tokens of an 8B model replaces 1 GiB,
 * which takes 20 ms to copy to host memory. No step uses what is replaced here: its place is held
 * for the block that comes. So contents leave slice by slice, and the jobs that fill their places
 * begin behind them. What touches one of these blocks meanwhile, on the device or in host memory,
 * comes after all of them, as if they had left at once.
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
    this.#waiting.push(...replaced);
    for (const { move } of replaced) this.#touched.add(move.from).add(move.to);
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

  /** All that waits leaves now. */
  flush(): void {
    this.#issue(this.#waiting.length);
  }

  async #run(): Promise<void> {
    const { sliceBlocks, moved, timer } = this.#options;
    while (this.#waiting.length > 0) {
      this.#issue(sliceBlocks);
      await new Promise<void>((resolve) => timer.after(PAUSE_MS, resolve));
      await moved();
    }
    this.#isRunning = false;
  }

  #issue(count: number): void {
    const slice = this.#waiting.splice(0, count);
    for (const { move } of slice) {
      this.#touched.delete(move.from);
      this.#touched.delete(move.to);
    }
    if (slice.length === 0) return;
    this.#options.issue(
      slice.map(({ move }) => move),
      slice.map(({ job }) => job),
    );
  }

  /** Contents that leave for a block that comes, and that nothing else of this moment touches. */
  #replacedIn(decided: Decided): readonly Replaced[] {
    const { sliceBlocks, isOnDevice } = this.#options;
    const comes = new Map<number, PeerJob>();
    for (const job of decided.peerJobs) {
      if (job.kind === "receive" && isOnDevice(job.block)) comes.set(job.block, job);
    }
    if (comes.size <= sliceBlocks) return [];
    const touches = new Map<number, number>();
    for (const block of blocksOf(decided)) touches.set(block, (touches.get(block) ?? 0) + 1);
    return decided.moves.flatMap((move) => {
      const job = comes.get(move.from);
      const isAlone = touches.get(move.from) === 2 && touches.get(move.to) === 1;
      return job !== undefined && move.kind === "offload" && isAlone ? [{ move, job }] : [];
    });
  }
}

/** Blocks of the device and of host memory, once for each move or job that touches them. */
function blocksOf({ moves, jobs, peerJobs }: Decided): readonly number[] {
  return [
    ...moves.flatMap(({ from, to }) => [from, to]),
    ...jobs.flatMap((job) => (job.kind === "delete" ? [] : [job.host])),
    ...peerJobs.map(({ block }) => block),
  ];
}
