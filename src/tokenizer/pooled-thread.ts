/** The pool's handle of one text thread. */
import { Worker } from "node:worker_threads";
import type { Clock, Timer } from "#base";
import {
  errorOf,
  STATUS_BEGUN,
  STATUS_JOB,
  STATUS_LENGTH,
  type TextAnswer,
  type TextCall,
  type TextFailure,
  type TextJob,
  type TextReply,
  type TextThreadData,
  WORDS,
} from "./text-jobs.ts";

/** A job of the pool. */
export interface PoolTask {
  readonly job: TextJob;
  /** Its queue: the first thread that takes its size. */
  readonly place: number;
  /** Number of threads that ended while they had this job. */
  attempts: number;
  /** The job was answered or rejected. */
  settled: boolean;
  /** Called once, by the code that sets `settled`. */
  settle: (result: { readonly answer: TextAnswer } | { readonly error: unknown }) => void;
}

/** Why a thread ended, and the jobs that it had. */
export interface ThreadEnd {
  /** The job that ended the thread; null: none. */
  readonly guilty: PoolTask | null;
  readonly failure: TextFailure;
  /** The other jobs of the thread. */
  readonly others: readonly PoolTask[];
}

export interface PooledThreadOptions {
  readonly deadlineMs: number;
  readonly memoryBytes: number;
  readonly idleMs: number;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Queues several jobs, so that the next one does not wait for the calling thread. */
  readonly isForSmall: boolean;
  readonly onSettled: () => void;
  readonly onEnd: (end: ThreadEnd) => void;
}

const MIB = 2 ** 20;
const SMALL_JOBS_MAX = 8;
/** Number of checks within one deadline. */
const LOOKS = 8;

/** Node 20 cannot run TypeScript: from source, the built file in dist is used. */
function scriptUrl(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const path = fromSource ? "../../dist/tokenizer/text-thread.js" : "./text-thread.js";
  return new URL(path, import.meta.url);
}

/** A quarter of Node's default: a thread would keep the rest after one long text. */
const YOUNG_MIB = 12;

/** A worker, its jobs, and the deadline check for the running job. */
export class PooledThread {
  readonly #options: PooledThreadOptions;
  readonly #worker: Worker;
  readonly #status = new Int32Array(new SharedArrayBuffer(STATUS_LENGTH * 4));
  readonly #tasks = new Map<number, PoolTask>();
  #nextId = 1;
  #ready = false;
  #over = false;
  /** Number of jobs begun at the last check, and the time since which it has not changed. */
  #begun = 0;
  #sinceMs = 0;
  #stopWatch: (() => void) | null = null;

  constructor(shared: SharedArrayBuffer, options: PooledThreadOptions) {
    this.#options = options;
    const status = this.#status.buffer as SharedArrayBuffer; // made as one above
    const workerData: TextThreadData = { shared, status, idleMs: options.idleMs };
    this.#worker = new Worker(scriptUrl(), {
      name: "perigee-text",
      workerData,
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: Math.ceil(options.memoryBytes / MIB),
        maxYoungGenerationSizeMb: YOUNG_MIB,
      },
    });
    this.#worker.unref();
    this.#worker.on("message", (reply: TextReply) => this.#receive(reply));
    this.#worker.on("error", (error) => this.#end(this.#failureBy(error)));
    this.#worker.on("exit", () => this.#end(this.#failureBy(null)));
  }

  tasks(): readonly PoolTask[] {
    return [...this.#tasks.values()];
  }

  hasRoomFor({ place }: PoolTask): boolean {
    const most = this.#options.isForSmall && place === 0 ? SMALL_JOBS_MAX : 1;
    return this.#tasks.size < most;
  }

  post(task: PoolTask): void {
    const id = this.#nextId++;
    try {
      this.#worker.postMessage({ id, job: task.job } satisfies TextCall);
    } catch (error) {
      this.#settle(task, { error: errorOf(uncrossable(error, task.job)) });
      return;
    }
    this.#tasks.set(id, task);
    this.#worker.ref();
    if (this.#stopWatch === null) this.#watch();
  }

  /** Ends the thread without settling its jobs and without `onEnd`. */
  async terminate(): Promise<void> {
    this.#over = true;
    this.#stopWatch?.();
    await this.#worker.terminate();
  }

  #receive(reply: TextReply): void {
    if (reply.id === 0) {
      this.#ready = true;
      this.#sinceMs = this.#options.clock.nowMs();
      return;
    }
    const task = this.#tasks.get(reply.id);
    if (task === undefined) return;
    this.#tasks.delete(reply.id);
    if ("failure" in reply) this.#settle(task, { error: errorOf(reply.failure) });
    else if ("answer" in reply) this.#settle(task, { answer: reply.answer });
    if (this.#tasks.size === 0) {
      this.#worker.unref();
      this.#stopWatch?.();
      this.#stopWatch = null;
    }
    this.#options.onSettled();
  }

  #settle(task: PoolTask, result: Parameters<PoolTask["settle"]>[0]): void {
    if (task.settled) return;
    task.settled = true;
    task.settle(result);
  }

  /** Checks periodically, while there are jobs, whether the running job exceeds its deadline. */
  #watch(): void {
    const { clock, timer, deadlineMs } = this.#options;
    this.#begun = Atomics.load(this.#status, STATUS_BEGUN);
    this.#sinceMs = clock.nowMs();
    const look = () => {
      const begun = Atomics.load(this.#status, STATUS_BEGUN);
      if (begun !== this.#begun) {
        this.#begun = begun;
        this.#sinceMs = clock.nowMs();
      }
      const isRunning = this.#ready && Atomics.load(this.#status, STATUS_JOB) !== 0;
      if (isRunning && clock.nowMs() - this.#sinceMs >= deadlineMs) {
        void this.#worker.terminate();
        this.#end({ wanted: `be done within ${deadlineMs} ms (textDeadlineMs)`, cause: null });
        return;
      }
      this.#stopWatch = timer.after(deadlineMs / LOOKS, look);
    };
    this.#stopWatch = timer.after(deadlineMs / LOOKS, look);
  }

  #failureBy(error: unknown): ThreadFailure {
    const code = error instanceof Error && "code" in error ? error.code : "";
    const isMemory = code === "ERR_WORKER_OUT_OF_MEMORY";
    const { memoryBytes } = this.#options;
    const wanted = isMemory ? `take at most ${memoryBytes} bytes (textMemoryBytes)` : null;
    return { wanted, cause: error };
  }

  #end({ wanted, cause }: ThreadFailure): void {
    if (this.#over) return;
    this.#over = true;
    this.#stopWatch?.();
    const running = Atomics.load(this.#status, STATUS_JOB);
    const guilty = this.#tasks.get(running) ?? null;
    if (guilty !== null) this.#tasks.delete(running);
    const all = this.tasks();
    // A thread that failed to start would fail again: all its jobs are rejected.
    const others = this.#ready ? all : [];
    const failure = failureText(guilty?.job ?? null, wanted, cause);
    if (!this.#ready) for (const task of all) this.#settle(task, { error: errorOf(failure) });
    this.#options.onEnd({ guilty, failure, others });
  }
}

interface ThreadFailure {
  /** The requirement that the job violated; null if the thread ended for another reason. */
  readonly wanted: string | null;
  readonly cause: unknown;
}

function failureText(job: TextJob | null, wanted: string | null, cause: unknown): TextFailure {
  if (job === null || wanted === null) {
    const reason = cause instanceof Error ? cause.message : "it ended";
    const message = `Cannot process text: its thread must be alive, ${reason}`;
    return { code: "ENGINE_STEP_FAILED", message, param: null };
  }
  const [action, param] = WORDS[job.kind];
  return {
    code: "INVALID_ARGUMENT",
    message: `Cannot ${action}: it must ${wanted}, and was stopped; send less text`,
    param,
  };
}

function uncrossable(cause: unknown, { kind }: TextJob): TextFailure {
  const [action, param] = WORDS[kind];
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `Cannot ${action}: it must be of plain values, ${reason}`;
  return { code: "INVALID_ARGUMENT", message, param };
}
