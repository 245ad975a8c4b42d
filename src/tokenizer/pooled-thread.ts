/** One text thread as the pool sees it. */
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
  /** Threads that ended under it. */
  attempts: number;
  /** Nobody waits any longer. */
  settled: boolean;
  /** Called once, by whoever sets `settled`. */
  settle: (result: { readonly answer: TextAnswer } | { readonly error: unknown }) => void;
}

/** Why and with what a thread ended. */
export interface ThreadEnd {
  /** Whose job ended it; null: nobody's. */
  readonly guilty: PoolTask | null;
  readonly failure: TextFailure;
  /** Jobs that were with it. */
  readonly others: readonly PoolTask[];
}

export interface PooledThreadOptions {
  readonly deadlineMs: number;
  readonly memoryBytes: number;
  readonly idleMs: number;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Takes several jobs at once, so that none waits for a turn of the calling thread. */
  readonly isForSmall: boolean;
  readonly onSettled: () => void;
  readonly onEnd: (end: ThreadEnd) => void;
}

const MIB = 2 ** 20;
const SMALL_JOBS_MAX = 8;
/** The deadline is looked at so often while it runs. */
const LOOKS = 8;

/** Built code only, because Node 20 cannot run TypeScript: from source, the built file runs. */
function scriptUrl(): URL {
  const fromSource = import.meta.url.endsWith(".ts");
  const path = fromSource ? "../../dist/tokenizer/text-thread.js" : "./text-thread.js";
  return new URL(path, import.meta.url);
}

/** A quarter of Node's own measure: a thread that has had one long text would keep the rest. */
const YOUNG_MIB = 12;

/** A worker, the jobs that it has, and the watch over how long one of them runs. */
export class PooledThread {
  readonly #options: PooledThreadOptions;
  readonly #worker: Worker;
  readonly #status = new Int32Array(new SharedArrayBuffer(STATUS_LENGTH * 4));
  readonly #tasks = new Map<number, PoolTask>();
  #nextId = 1;
  #ready = false;
  #over = false;
  /** Jobs begun when the watch last looked, and since when there are no more. */
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

  /** Ends it without a word to anybody. */
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

  /** Looks again and again, while there are jobs, whether one of them has run for too long. */
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
    // What cannot even start would not start again: everybody is told.
    const others = this.#ready ? all : [];
    const failure = failureText(guilty?.job ?? null, wanted, cause);
    if (!this.#ready) for (const task of all) this.#settle(task, { error: errorOf(failure) });
    this.#options.onEnd({ guilty, failure, others });
  }
}

interface ThreadFailure {
  /** What the job was to do; null where the thread ended for another reason. */
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
