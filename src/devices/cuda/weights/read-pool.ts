/**
 * Reads files with several threads: one alone copies a file out of the system's cache far slower
 * than a GPU's bus takes it, and a mapped file is slower still, because every page of it costs a
 * fault. bench/gpu/reading.mjs measures these ways.
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

/** Whether there is something to start threads with. */
export function canReadOnThreads(): boolean {
  return existsSync(fileURLToPath(script));
}

/** A thread that says nothing for so long did not start, or its disk is gone. */
const waitMsDefault = 60_000;

/** A stretch of an open file. */
export interface Stretch {
  readonly descriptor: number;
  readonly start: number;
  readonly bytes: number;
}

/**
 * How a read ended: `failed` says that the system refused it, `hung` that it did not end in time,
 * and may still write to its slot.
 */
export type ReadEnd = "read" | "tooShort" | "failed" | "hung";

/** Where a pool reads to, and with how many threads. */
export interface ReadPoolOptions {
  /** Memory of each slot; it must outlive the pool. */
  readonly addresses: readonly bigint[];
  readonly slotBytes: number;
  /** At most as many as there are slots. */
  readonly threads: number;
  /** How long a read is waited for. */
  readonly waitMsMax?: number;
}

/**
 * Slots of native memory that threads fill. A slot is asked for, then waited for. Slots must be
 * asked for in the order of their numbers, again and again: each thread takes its own in turn.
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
      // A thread that breaks ends nobody else: who waits for its slots is told that they failed.
      worker.on("error", () => {});
      worker.unref();
      return worker;
    });
  }

  /** Lets a thread fill an idle slot. */
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
   * Ends the threads, those that read when they have. No slot may be waited for. Returns the slots
   * that a thread may still write to: their memory must stay.
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
