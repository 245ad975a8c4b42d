/** What a run asks of the memory of a server and of the processes that it starts. */

export const GROWTH_BYTES_MAX = 256 * 2 ** 20;
export const KEPT_BYTES_MAX = 64 * 2 ** 20;
/**
 * After so many requests memory is as large as it gets. What it is then is the most of the next as
 * many: each of the server's heaps is somewhere between two collections, so that single readings of
 * a server that keeps nothing differ by 50 MiB. A long run waits for longer: for some thousand
 * requests code is compiled and threads are begun.
 */
const WARM_REQUESTS = { usual: 500, long: 5_000 };
const LONG_RUN_REQUESTS = 50_000;
/** Parts of a run whose memory is told apart. */
const PARTS = 10;

/** MiB, as far as the system tells. */
export interface MemoryReport {
  readonly start: number;
  readonly warm: number;
  /** After so many requests `warm` begins. */
  readonly warmRequests: number;
  readonly most: number;
  /** Of the server and of each process that it had started, when it was most. */
  readonly mostEach: readonly number[];
  /** Means of the tenths of a run: of a server that keeps nothing the later ones are alike. */
  readonly tenths: readonly number[];
  readonly end: number;
}

/** What is read of a server. */
export interface ReadServer {
  /** Of the server, and of each process that it has started. */
  residentBytesEach(): readonly number[];
}

export interface MemoryWatchOptions {
  readonly server: ReadServer;
  /** Of the run. */
  readonly requests: number;
  readonly growthBytesMax: number;
}

/** The memory of one server of a run, from before its first case on. */
export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  readonly #warmRequests: number;
  readonly #start: number;
  readonly #tenths = Array.from({ length: PARTS }, () => ({ sum: 0, count: 0 }));
  #warm = 0;
  #most = 0;
  #mostEach: readonly number[] = [];
  #end = 0;

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
    const { usual, long } = WARM_REQUESTS;
    this.#warmRequests = options.requests < LONG_RUN_REQUESTS ? usual : long;
    this.#start = sum(options.server.residentBytesEach());
  }

  /** Called after each case. `done`: requests of the run; `served`: of this server. */
  note(done: number, served: number): void {
    const each = this.#options.server.residentBytesEach();
    const bytes = sum(each);
    if (bytes > this.#most) {
      this.#most = bytes;
      this.#mostEach = each;
    }
    const part = Math.floor((PARTS * done) / this.#options.requests);
    const tenth = this.#tenths[Math.min(part, PARTS - 1)];
    if (tenth !== undefined) {
      tenth.sum += bytes;
      tenth.count++;
    }
    if (served < this.#warmRequests || served > 2 * this.#warmRequests) return;
    this.#warm = Math.max(this.#warm, bytes);
  }

  /** Whether it is, after so many requests, as small as it must be at the end. */
  isSettled(served: number): boolean {
    if (!this.#isLong(served)) return true;
    return sum(this.#options.server.residentBytesEach()) - this.#warm <= KEPT_BYTES_MAX;
  }

  /** Reads it a last time, after so many requests. What is wrong with it. */
  end(served: number): readonly string[] {
    this.#end = sum(this.#options.server.residentBytesEach());
    const growth = this.#most - this.#start;
    const kept = this.#isLong(served) ? this.#end - this.#warm : 0;
    const found: string[] = [];
    if (growth > this.#options.growthBytesMax) {
      found.push(`${growth} bytes more than before, while it ran`);
    }
    if (kept > KEPT_BYTES_MAX) {
      found.push(`${kept} bytes more than after ${this.#warmRequests} requests`);
    }
    return found;
  }

  report(): MemoryReport {
    return {
      start: mebibytes(this.#start),
      warm: mebibytes(this.#warm),
      warmRequests: this.#warmRequests,
      most: mebibytes(this.#most),
      mostEach: this.#mostEach.map(mebibytes),
      tenths: this.#tenths.map((tenth) => mebibytes(tenth.sum / Math.max(1, tenth.count))),
      end: mebibytes(this.#end),
    };
  }

  /** Whether a server has had enough requests that its memory should not grow any more. */
  #isLong(served: number): boolean {
    return this.#warm > 0 && served > 2 * this.#warmRequests;
  }
}

function sum(each: readonly number[]): number {
  return each.reduce((total, bytes) => total + bytes, 0);
}

function mebibytes(bytes: number): number {
  return Math.round(bytes / 2 ** 20);
}
