/** A text thread: runs its jobs in order of arrival. Started by `text-pool.ts`. */
import { setPriority } from "node:os";
import { getHeapStatistics } from "node:v8";
import { parentPort, workerData } from "node:worker_threads";
import { assert, systemTimer } from "#base";
import {
  failureOf,
  STATUS_BEGUN,
  STATUS_JOB,
  type TextAnswer,
  type TextCall,
  type TextReply,
  type TextThreadData,
} from "./text-jobs.ts";
import { readShared, TextWork } from "./text-work.ts";

/** A thread whose heap grew by more than this for a large text ends, to release the memory. */
const GARBAGE_BYTES_MAX = 32 * 2 ** 20;
const GARBAGE_IDLE_MS = 1_000;

/** A third of the processor time next to a thread that generates on the same core. */
const NICENESS = 5;

const port = parentPort;
assert(port !== null, "text-thread.js is started by TextPool, as a worker");
const { shared, status, idleMs }: TextThreadData = workerData;
lowerPriority();
const state = new Int32Array(status);
const work = new TextWork(readShared(shared));
const heapAtStart = getHeapStatistics().total_heap_size;
let stopWaiting = () => {};

port.on("message", ({ id, job }: TextCall) => {
  stopWaiting();
  Atomics.add(state, STATUS_BEGUN, 1);
  Atomics.store(state, STATUS_JOB, id);
  try {
    const answer = work.run(job);
    post({ id, answer }, buffersOf(answer));
  } catch (error) {
    post({ id, failure: failureOf(error, job) });
  }
  Atomics.store(state, STATUS_JOB, 0);
  waitForWork();
});
post({ id: 0 });
waitForWork();

/**
 * Generation has priority: its threads wait for each other, so an interrupted thread delays all of
 * them. On Linux a thread has its own priority; elsewhere this would change the process's.
 */
function lowerPriority(): void {
  if (process.platform !== "linux") return;
  try {
    setPriority(0, NICENESS);
  } catch {
    // Some systems do not permit it; the lower priority is optional.
  }
}

/** Ends this thread after an idle time, which is shorter if that releases much memory. */
function waitForWork(): void {
  const grown = getHeapStatistics().total_heap_size - heapAtStart;
  const ms = grown > GARBAGE_BYTES_MAX ? Math.min(GARBAGE_IDLE_MS, idleMs) : idleMs;
  stopWaiting = systemTimer.after(ms, () => port?.close());
}

function post(reply: TextReply, transfer: ArrayBuffer[] = []): void {
  port?.postMessage(reply, transfer);
}

/** Buffers of token ids, which are transferred instead of copied. */
function buffersOf(answer: TextAnswer): ArrayBuffer[] {
  if (typeof answer === "string") return [];
  const lists = "ids" in answer ? [answer.ids] : answer;
  return lists.flatMap((list) => (list instanceof Int32Array ? bufferOf(list) : []));
}

function bufferOf({ buffer }: Int32Array): ArrayBuffer[] {
  return buffer instanceof ArrayBuffer ? [buffer] : [];
}
