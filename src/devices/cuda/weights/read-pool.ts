/**
 * Reads files with several threads: one alone copies a file out of the system's page cache far
 * slower than a GPU's bus accepts it, and a mapped file is slower still, because every page of it
 * costs a fault. Measured by bench/gpu/reading.mjs.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { assert } from "#base";
import { CELL, type ReadThreadData } from "./read-cells.ts";

/** Built code only: Node 20 cannot start a thread from a .ts file. */
const script = new URL(
  import.meta.url.endsWith(".ts")
    ? "../../../../dist/devices/cuda/weights/read-thread.js"
    : "./read-thread.js",
  import.meta.url,
);

/** Whether the script of the threads exists. */
export function canReadOnThreads(): boolean {
  return existsSync(fileURLToPath(script));
}

/** A thread without an answer for this long did not start, or its disk is gone. */
const waitMsDefault = 60_000;

/** A range of bytes of an open file. */
export interface FileRange {
  readonly descriptor: number;
  readonly start: number;
  readonly bytes: number;
}

/**
 * Result of a read: `failed`: the system refused it; `hung`: it did not end in time, and may still
 * write to its cell.
 */
export type ReadEnd = "read" | "tooShort" | "failed" | "hung";

/** Cells of a pool, and its number of threads. */
export interface ReadPoolOptions {
  /** Memory of each cell; it must outlive the pool. */
  readonly addresses: readonly bigint[];
  readonly cellBytes: number;
  /** At most as many as there are cells. */
  readonly threads: number;
  /** Longest wait for a read. */
  readonly waitMsMax?: number;
}

/**
 * Cells of native memory that threads fill. A cell is requested, then waited for. Cells must be
 * requested in the order of their numbers, cyclically: each thread fills its own cells in turn.
 */
export class ReadPool {
  readonly #states: Int32Array;
  readonly #jobs: Float64Array;
  readonly #workers: readonly Worker[];
  readonly #waitMsMax: number;

  constructor({ addresses, cellBytes, threads, waitMsMax = waitMsDefault }: ReadPoolOptions) {
    this.#waitMsMax = waitMsMax;
    const states = new SharedArrayBuffer(4 * addresses.length);
    const jobs = new SharedArrayBuffer(24 * addresses.length);
    this.#states = new Int32Array(states);
    this.#jobs = new Float64Array(jobs);
    this.#workers = Array.from({ length: threads }, (_, thread) => {
      const mine = [...addresses.keys()].filter((cell) => cell % threads === thread);
      const workerData: ReadThreadData = { states, jobs, addresses, cellBytes, mine };
      // Flags of the process (--input-type, --conditions) are not meant for this script.
      const worker = new Worker(script, { workerData, execArgv: [] });
      // A broken thread affects its own cells only: a wait for them reports the failure.
      worker.on("error", () => {});
      worker.unref();
      return worker;
    });
  }

  /** Requests a thread to fill an idle cell. */
  ask(cell: number, { descriptor, start, bytes }: FileRange): void {
    assert(Atomics.load(this.#states, cell) === CELL.idle, `Cannot read into cell ${cell}: in use`);
    this.#jobs.set([descriptor, start, bytes], 3 * cell);
    Atomics.store(this.#states, cell, CELL.wanted);
    Atomics.notify(this.#states, cell);
  }

  /** Blocks this thread until the cell is filled; unless the read hangs it is idle again then. */
  wait(cell: number): ReadEnd {
    // The thread changes a wanted cell once, so that one wait is enough.
    const { wanted } = CELL;
    if (Atomics.wait(this.#states, cell, wanted, this.#waitMsMax) === "timed-out") return "hung";
    const end = Atomics.exchange(this.#states, cell, CELL.idle);
    if (end === CELL.read) return "read";
    return end === CELL.tooShort ? "tooShort" : "failed";
  }

  /**
   * Ends the threads; a reading one ends after its read. No wait for a cell may be pending. Returns
   * the cells that a thread may still write to: their memory must stay.
   */
  close(): ReadonlySet<number> {
    const busy = new Set<number>();
    for (let cell = 0; cell < this.#states.length; cell++) {
      if (Atomics.exchange(this.#states, cell, CELL.closed) === CELL.wanted) busy.add(cell);
      Atomics.notify(this.#states, cell);
    }
    return busy;
  }

  /** Settles when all threads have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}
