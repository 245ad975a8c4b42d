/**
 * Device memory, host memory and files that hold, instead of keys and values, a digest of the
 * history that each position belongs to. Reading another history's digest would be a wrong token.
 */
import type { BlockFile, BlockMove, DiskJob, FinishedDiskJob } from "#kvcache";

/** A file, and the contents of its block. */
export interface PretendFile {
  readonly file: BlockFile;
  readonly contents: Float64Array;
}

interface StartedJob {
  readonly job: DiskJob;
  /** What the host block had when a write began: it must still have it at the end. */
  readonly contents: Float64Array | null;
}

/** Everything that bytes can be in. Blocks are named as the cache names them. */
export class PretendStorage {
  readonly files: Map<string, PretendFile> = new Map();
  readonly #blockTokens: number;
  readonly #slots: Float64Array;
  #jobs: StartedJob[] = [];

  /** Blocks of all levels, of which those on disk are never written. */
  constructor(blocks: number, blockTokens: number) {
    this.#blockTokens = blockTokens;
    this.#slots = new Float64Array(blocks * blockTokens).fill(Number.NaN);
  }

  /** Jobs that have not ended. */
  get jobCount(): number {
    return this.#jobs.length;
  }

  read(block: number, offset: number): number {
    return this.#slots[block * this.#blockTokens + offset] ?? Number.NaN;
  }

  write(block: number, offset: number, digest: number): void {
    this.#slots[block * this.#blockTokens + offset] = digest;
  }

  /** Carries moves out, in order. */
  move(moves: readonly BlockMove[]): void {
    for (const { from, to } of moves) this.#block(to).set(this.#block(from));
  }

  /** Jobs begin: a read may change its host block from now on, to anything. */
  start(jobs: readonly DiskJob[]): void {
    for (const job of jobs) {
      const contents = job.kind === "write" ? this.#block(job.host).slice() : null;
      if (job.kind === "read") this.#block(job.host).fill(Number.NaN);
      this.#jobs.push({ job, contents });
    }
  }

  /** Ends one of the jobs whose turn it is: those of one key keep their order. */
  finish(pick: (count: number) => number, fails: boolean): FinishedDiskJob {
    const ready = this.#jobs.filter(
      ({ job }, index) =>
        this.#jobs.findIndex((other) => other.job.file.key === job.file.key) === index,
    );
    const chosen = ready[pick(ready.length)];
    if (chosen === undefined) throw new Error("There is no job to end");
    this.#jobs = this.#jobs.filter((other) => other !== chosen);
    return { job: chosen.job, ok: this.#carryOut(chosen, fails) };
  }

  #carryOut({ job, contents }: StartedJob, fails: boolean): boolean {
    const { key } = job.file;
    if (job.kind === "delete") {
      if (!fails) this.files.delete(key);
      return !fails;
    }
    const host = this.#block(job.host);
    if (job.kind === "write") {
      if (contents?.every((digest, at) => Object.is(digest, host[at])) !== true) {
        throw new Error("A host block changed while it was written to disk");
      }
      // Whatever was there before is not whole any more.
      if (fails) this.files.delete(key);
      else this.files.set(key, { file: job.file, contents });
      return !fails;
    }
    const known = this.files.get(key);
    if (fails || known === undefined) return false;
    host.set(known.contents);
    return true;
  }

  #block(block: number): Float64Array {
    return this.#slots.subarray(block * this.#blockTokens, (block + 1) * this.#blockTokens);
  }
}
