/**
 * One thread that reads parts of files into native memory. It sleeps on shared memory instead of
 * messages, since the requesting thread waits without running its event loop. Never import this
 * file: the engine runs in a thread, too, and the import would start this loop there.
 */
import { readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";
import { viewOf } from "#devices/cuda/driver";
import { type ReadThreadData, SLOT } from "./read-slots.ts";

function run({ states, jobs, addresses, slotBytes, mine }: ReadThreadData): void {
  const state = new Int32Array(states);
  const job = new Float64Array(jobs);
  const views = mine.map((slot) => viewOf(addresses[slot] ?? 0n, slotBytes));
  for (let turn = 0; ; turn++) {
    const place = turn % mine.length;
    const slot = mine[place] ?? 0;
    for (let seen = Atomics.load(state, slot); seen !== SLOT.wanted; ) {
      if (seen === SLOT.closed) return;
      Atomics.wait(state, slot, seen);
      seen = Atomics.load(state, slot);
    }
    const [descriptor = 0, start = 0, bytes = 0] = job.subarray(3 * slot, 3 * slot + 3);
    const view = views[place] ?? new Uint8Array();
    const end = fill(view.subarray(0, bytes), descriptor, start);
    // The requesting thread closes the slot when its wait times out.
    Atomics.compareExchange(state, slot, SLOT.wanted, end);
    Atomics.notify(state, slot);
  }
}

/** Reads until the view is full. Returns the slot's new state. */
function fill(view: Uint8Array, descriptor: number, start: number): number {
  try {
    for (let done = 0; done < view.length; ) {
      const count = readSync(descriptor, view, done, view.length - done, start + done);
      if (count === 0) return SLOT.tooShort;
      done += count;
    }
    return SLOT.read;
  } catch {
    return SLOT.failed; // The requesting thread reports the error.
  }
}

// The pool passes `ReadThreadData`.
if (parentPort !== null) run(workerData as ReadThreadData);
