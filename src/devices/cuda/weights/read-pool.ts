/**
 * Reads files with several threads: one alone copies a file out of the system's page cache far
 * slower than a GPU's bus accepts it, and a mapped file is slower still, because every page of it
 * costs a fault. Measured by bench/gpu/reading.mjs.
 */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { assert } from "#base";
import { type ReadThreadData, SLOT } from "./read-slots.ts";

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

/** A part of an open file. */
export interface Stretch {
  readonly descriptor: number;
  readonly start: number;
  readonly bytes: number;
}

/**
 * Result of a read: `failed`: the system refused it; `hung`: it did not end in time, and may still
 * write to its slot.
 */
export type ReadEnd = "read" | "tooShort" | "failed" | "hung";

/** Slots of a pool, and its number of threads. */
export interface ReadPoolOptions {
  /** Memory of each slot; it must outlive the pool. */
  readonly addresses: readonly bigint[];
  readonly slotBytes: number;
  /** At most as many as there are slots. */
  readonly threads: number;
  /** Longest wait for a read. */
  readonly waitMsMax?: number;
}

/**
 * Slots of native memory that threads fill. A slot is requested, then waited for. Slots must be
 * requested in the order of their numbers, cyclically: each thread fills its own slots in turn.
 */
export class ReadPool {
  readonly #states: Int32Array;
  readonly #jobs: Float64Array;
  readonly #workers: readonly Worker[];
  readonly #waitMsMax: number;

  constructor({ addresses, slotBytes, threads, waitMsMax = waitMsDefault }: ReadPoolOptions) {
    this.#waitMsMax = waitMsMax;
    const states = new SharedArrayBuffer(4 * addresses.length);
    const jobs = new SharedArrayBuffer(24 * addresses.length);
    this.#states = new Int32Array(states);
    this.#jobs = new Float64Array(jobs);
    this.#workers = Array.from({ length: threads }, (_, thread) => {
      const mine = [...addresses.keys()].filter((slot) => slot % threads === thread);
      const workerData: ReadThreadData = { states, jobs, addresses, slotBytes, mine };
      // Flags of the process (--input-type, --conditions) are not meant for this script.
      const worker = new Worker(script, { workerData, execArgv: [] });
      // A broken thread affects its own slots only: a wait for them reports the failure.
      worker.on("error", () => {});
      worker.unref();
      return worker;
    });
  }

  /** Requests a thread to fill an idle slot. */
  ask(slot: number, { descriptor, start, bytes }: Stretch): void {
    assert(Atomics.load(this.#states, slot) === SLOT.idle, `Cannot read into slot ${slot}: in use`);
    this.#jobs.set([descriptor, start, bytes], 3 * slot);
    Atomics.store(this.#states, slot, SLOT.wanted);
    Atomics.notify(this.#states, slot);
  }

  /** Blocks this thread until the slot is filled; unless the read hangs it is idle again then. */
  wait(slot: number): ReadEnd {
    // The thread changes a wanted slot once, so that one wait is enough.
    const { wanted } = SLOT;
    if (Atomics.wait(this.#states, slot, wanted, this.#waitMsMax) === "timed-out") return "hung";
    const end = Atomics.exchange(this.#states, slot, SLOT.idle);
    if (end === SLOT.read) return "read";
    return end === SLOT.tooShort ? "tooShort" : "failed";
  }

  /**
   * Ends the threads; a reading one ends after its read. No wait for a slot may be pending. Returns
   * the slots that a thread may still write to: their memory must stay.
   */
  close(): ReadonlySet<number> {
    const busy = new Set<number>();
    for (let slot = 0; slot < this.#states.length; slot++) {
      if (Atomics.exchange(this.#states, slot, SLOT.closed) === SLOT.wanted) busy.add(slot);
      Atomics.notify(this.#states, slot);
    }
    return busy;
  }

  /** Settles when all threads have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }
}
