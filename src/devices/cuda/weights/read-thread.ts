/**
 * One thread that reads parts of files into native memory. It sleeps on shared memory instead of
 * messages, since the requesting thread waits without running its event loop. Never import this
 * file: the engine runs in a thread, too, and the import would start this loop there.
 */
import { readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { viewOf } from "#devices/cuda/driver";
import { CELL, type ReadThreadData } from "./read-cells.ts";

function run({ states, jobs, addresses, cellBytes, mine }: ReadThreadData): void {
  const state = new Int32Array(states);
  const job = new Float64Array(jobs);
  const views = mine.map((cell) => viewOf(addresses[cell] ?? 0n, cellBytes));
  for (let turn = 0; ; turn++) {
    const place = turn % mine.length;
    const cell = mine[place] ?? 0;
    for (let seen = Atomics.load(state, cell); seen !== CELL.wanted; ) {
      if (seen === CELL.closed) return;
      Atomics.wait(state, cell, seen);
      seen = Atomics.load(state, cell);
    }
    const [descriptor = 0, start = 0, bytes = 0] = job.subarray(3 * cell, 3 * cell + 3);
    const view = views[place] ?? new Uint8Array();
    const end = fill(view.subarray(0, bytes), descriptor, start);
    // The requesting thread closes the cell when its wait times out.
    Atomics.compareExchange(state, cell, CELL.wanted, end);
    Atomics.notify(state, cell);
  }
}

/** Reads until the view is full. Returns the cell's new state. */
function fill(view: Uint8Array, descriptor: number, start: number): number {
  try {
    for (let done = 0; done < view.length; ) {
      const count = readSync(descriptor, view, done, view.length - done, start + done);
      if (count === 0) return CELL.tooShort;
      done += count;
    }
    return CELL.read;
  } catch {
    return CELL.failed; // The requesting thread reports the error.
  }
}

// The pool passes `ReadThreadData`.
if (parentPort !== null) run(workerData as ReadThreadData);
