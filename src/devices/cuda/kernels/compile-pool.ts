/**
 * Compiles several files at once, one thread each. koffi's own asynchronous calls do not work here:
 * they run on a stack of 128 KiB that cannot be enlarged once any library is open, and NVRTC
 * overruns it (tried: the process dies).
 */
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { EngineError } from "#base";
import type { CompileAnswer, CompileJob, CompileThreadData } from "./compile-thread.ts";
import type { KernelText } from "./kernel-text.ts";
import type { Nvrtc } from "./nvrtc.ts";

/** Built code only: Node 20 cannot start a thread from a .ts file. */
const script = new URL(
  import.meta.url.endsWith(".ts")
    ? "../../../../dist/devices/cuda/kernels/compile-thread.js"
    : "./compile-thread.js",
  import.meta.url,
);

/** A compiler of one file takes some 100 MB. */
const threadsMax = 8;

/** Receives every compiled file, in the order of completion. */
export type OnCompiled = (index: number, cubin: Uint8Array) => void;

/**
 * Compiles `sources` with the same options. Rejects with the first error, after the other threads
 * were ended. Without built code, files are compiled one after the other on this thread.
 */
export async function compileAll(
  nvrtc: Nvrtc,
  sources: readonly KernelText[],
  options: readonly string[],
  onCompiled: OnCompiled,
): Promise<void> {
  const jobs = sources.map((source, index): CompileJob => ({ index, source, options }));
  const threads = Math.min(jobs.length, availableParallelism(), threadsMax);
  if (threads > 1 && existsSync(fileURLToPath(script))) {
    await compileOnThreads(nvrtc.path, jobs, threads, onCompiled);
    return;
  }
  for (const { index, source } of jobs) onCompiled(index, nvrtc.compile(source, options));
}

async function compileOnThreads(
  nvrtcPath: string,
  jobs: readonly CompileJob[],
  threads: number,
  onCompiled: OnCompiled,
): Promise<void> {
  const workerData: CompileThreadData = { nvrtcPath };
  // Flags of the process (--input-type, --conditions) are not meant for this script.
  const start = () => new Worker(script, { workerData, execArgv: [] });
  const workers = Array.from({ length: threads }, start);
  // The longest first: a long one that begins last would delay the whole pool.
  const queue = [...jobs].sort((a, b) => b.source.text.length - a.source.text.length);
  try {
    await Promise.all(workers.map((worker) => drain(worker, queue, onCompiled)));
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
}

/** Gives jobs to one thread until the queue is empty. */
function drain(worker: Worker, queue: CompileJob[], onCompiled: OnCompiled): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = () => {
      const job = queue.shift();
      if (job === undefined) resolve();
      else worker.postMessage(job);
    };
    worker.on("message", (answer: CompileAnswer) => {
      if ("cubin" in answer) {
        onCompiled(answer.index, answer.cubin);
        next();
      } else {
        const cause = new Error(answer.log);
        reject(new EngineError("DEVICE_UNAVAILABLE", answer.message, { cause }));
      }
    });
    worker.on("error", reject);
    worker.on("exit", () => reject(new Error("the compiler's thread ended")));
    next();
  });
}
