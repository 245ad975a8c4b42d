import { type Clock, EngineError, type Timer } from "#base";
import { PooledThread, type PoolTask, type ThreadEnd } from "./pooled-thread.ts";
import { errorOf, type SharedText, type TextAnswers, type TextJob } from "./text-jobs.ts";
import { shareText } from "./text-work.ts";

/** Limits for the text work of one model. */
export interface TextLimits {
  /** Maximum number of threads. They start on demand and end when idle. */
  readonly textWorkers: number;
  /** Maximum run time of one job, in milliseconds of the clock. */
  readonly textDeadlineMs: number;
  /** Maximum number of waiting jobs. */
  readonly textQueueMax: number;
  /** Maximum memory of one thread in bytes, tokenizer included. */
  readonly textMemoryBytes: number;
}

export interface TextPoolOptions extends TextLimits {
  readonly clock: Clock;
  readonly timer: Timer;
  /** How long an idle thread waits for work before it ends. */
  readonly idleMs?: number;
}

export interface SubmitOptions {
  /** Length of the job's text in characters: small jobs never wait behind large ones. */
  readonly size: number;
  readonly signal?: AbortSignal | undefined;
}

/** Largest job of the first threads, in characters; the remaining threads take any size. */
const SIZES = [8 * 2 ** 10, 64 * 2 ** 10];

/** Jobs that wait for their thread before another one, for larger jobs, is started for them. */
const BACKLOG = 32;

/** Ten minutes: each start reads the whole vocabulary. */
const IDLE_MS = 600_000;

/** Maximum attempts for a job whose thread ended because of another job. */
const ATTEMPTS_MAX = 3;

/**
 * Threads that do the text work of one model, so that the calling thread never does work whose cost
 * the client decides. A job that takes too long or too much memory is stopped with its thread and
 * rejected with an error that names the limit; other jobs of that thread move to a new one. Each
 * thread has a maximum job size, so that small jobs do not wait behind large ones.
 */
export class TextPool {
  readonly #options: TextPoolOptions;
  readonly #text: SharedText;
  readonly #sizes: readonly number[];
  readonly #threads: (PooledThread | null)[];
  /** Waiting jobs, by the first thread that takes their size. */
  readonly #queues: PoolTask[][];
  #shared: SharedArrayBuffer | null = null;

  constructor(text: SharedText, options: TextPoolOptions) {
    this.#options = options;
    this.#text = text;
    const { textWorkers } = options;
    const bounded = SIZES.slice(0, textWorkers - 1);
    const open = textWorkers - bounded.length;
    this.#sizes = [...bounded, ...Array.from({ length: open }, () => Number.POSITIVE_INFINITY)];
    this.#threads = this.#sizes.map(() => null);
    this.#queues = this.#sizes.map(() => []);
  }

  /** The current number of threads. */
  get threadCount(): number {
    return this.#threads.filter((thread) => thread !== null).length;
  }

  /** Starts the thread for short texts, so that the first short text does not wait for it. */
  warmUp(): void {
    if (this.#threads[0] === null) this.#start(0);
  }

  /** The number of jobs that wait for a thread. */
  get waitingCount(): number {
    return this.#queues.reduce((sum, queue) => sum + queue.length, 0);
  }

  /**
   * Runs a job on a thread. Rejects with the job's own error; INVALID_ARGUMENT for a job that takes
   * too long or too much memory; QUEUE_FULL; ENGINE_DEAD when the pool is closed meanwhile; and
   * with the signal's reason.
   */
  async run<Kind extends TextJob["kind"]>(
    job: Extract<TextJob, { readonly kind: Kind }>,
    options: SubmitOptions,
  ): Promise<TextAnswers[Kind]> {
    const { size, signal } = options;
    signal?.throwIfAborted();
    const place = Math.max(
      0,
      this.#sizes.findIndex((most) => size <= most),
    );
    this.#checkQueue();
    const task: PoolTask = { job, place, attempts: 0, settled: false, settle: () => {} };
    const onAbort = () => this.#abort(task, signal?.reason);
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      const answer = await new Promise((resolve, reject) => {
        task.settle = (result) => {
          if ("answer" in result) resolve(result.answer);
          else reject(result.error);
        };
        this.#queues[place]?.push(task);
        this.#dispatch();
      });
      return answer as TextAnswers[Kind]; // a thread answers each job with its own kind
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Ends all threads; running and waiting jobs are rejected. The next job starts a new thread. */
  async close(): Promise<void> {
    const error = new EngineError("ENGINE_DEAD", "Cannot encode text: the tokenizer was closed");
    const waiting = this.#queues.flatMap((queue) => queue.splice(0));
    const threads = this.#threads.filter((thread) => thread !== null);
    this.#threads.fill(null);
    for (const task of waiting) settle(task, { error });
    const ends = threads.map((thread) => {
      for (const task of thread.tasks()) settle(task, { error });
      return thread.terminate();
    });
    await Promise.all(ends);
  }

  #checkQueue(): void {
    const { textQueueMax } = this.#options;
    if (this.waitingCount < textQueueMax) return;
    throw new EngineError(
      "QUEUE_FULL",
      `Cannot queue text: at most ${textQueueMax} texts may wait for a thread (textQueueMax), ` +
        `current value is ${this.waitingCount + 1}; try again later`,
    );
  }

  /** Assigns waiting jobs to threads; small jobs may also run on threads for larger ones. */
  #dispatch(): void {
    for (let place = 0; place < this.#sizes.length; place++) {
      for (let from = place; from >= 0; from--) this.#fill(place, from);
    }
  }

  /**
   * Gives one thread jobs from one queue. A thread is started for jobs of its own size, of several
   * threads for any size only when the earlier ones are busy; and for smaller jobs where many wait,
   * as when one caller has many texts embedded.
   */
  #fill(place: number, from: number): void {
    const queue = this.#queues[from] ?? [];
    const isOwn = this.#sizes[place] === this.#sizes[from];
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      if (next.settled) {
        queue.shift();
        continue;
      }
      const starts = isOwn || queue.length > BACKLOG;
      const thread = this.#threads[place] ?? (starts ? this.#start(place) : null);
      if (thread === null || !thread.hasRoomFor(next)) return;
      queue.shift();
      thread.post(next);
    }
  }

  #start(place: number): PooledThread {
    const { idleMs = IDLE_MS, textDeadlineMs, textMemoryBytes, clock, timer } = this.#options;
    this.#shared ??= shareText(this.#text);
    const thread: PooledThread = new PooledThread(this.#shared, {
      ...{ deadlineMs: textDeadlineMs, memoryBytes: textMemoryBytes, idleMs, clock, timer },
      isForSmall: Number.isFinite(this.#sizes[place]) && place === 0,
      onSettled: () => this.#dispatch(),
      onEnd: (end) => this.#replace(place, thread, end),
    });
    this.#threads[place] = thread;
    return thread;
  }

  /** A thread ended: the guilty job is rejected, the others return to the front of their queue. */
  #replace(place: number, thread: PooledThread, { guilty, failure, others }: ThreadEnd): void {
    if (this.#threads[place] !== thread) return;
    this.#threads[place] = null;
    if (guilty !== null) settle(guilty, { error: errorOf(failure) });
    for (const task of others.toReversed()) {
      task.attempts += 1;
      if (task.attempts < ATTEMPTS_MAX) this.#queues[task.place]?.unshift(task);
      else settle(task, { error: errorOf(failure) });
    }
    this.#dispatch();
  }

  /** Rejects the job. A running job continues to its end or its deadline; its result is unused. */
  #abort(task: PoolTask, reason: unknown): void {
    settle(task, { error: reason });
    const queue = this.#queues[task.place] ?? [];
    const index = queue.indexOf(task);
    if (index >= 0) queue.splice(index, 1);
  }
}

function settle(task: PoolTask, result: Parameters<PoolTask["settle"]>[0]): void {
  if (task.settled) return;
  task.settled = true;
  task.settle(result);
}
