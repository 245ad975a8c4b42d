/** Files on their way into vector stores: in the background, a bounded number at a time. */
import { EngineError, messageOf } from "#base";
import type { FileIngest, IngestFile, IngestOutcome } from "./file-ingest.ts";
import type { MemberRecord } from "./records.ts";

/** Files of one store that are put in together, so that their chunks are embedded together. */
const FILES_AT_ONCE = 16;
const BYTES_AT_ONCE = 64 * 2 ** 20;
/** Waits before files are tried again whose store or embedder failed; then they have failed. */
const RETRY_MS = [1000, 5000, 30_000];

/** A file that waits. */
export interface QueuedFile {
  readonly member: MemberRecord;
  readonly file: IngestFile;
}

/** What the queue asks of those who fill it. */
export interface QueueParts {
  readonly ingest: FileIngest;
  /** Stores that are worked on at a time. */
  readonly jobs: number;
  /** A file's turn is over. */
  onDone(file: QueuedFile, outcome: IngestOutcome): void;
  /** A try has failed, the next one follows. */
  onRetry(error: unknown): void;
}

interface Run {
  readonly files: readonly QueuedFile[];
  readonly controller: AbortController;
  /** Whether its files were done, not cancelled. */
  readonly ended: Promise<boolean>;
}

/** By store; one run at a time for each. */
export class IngestQueue {
  readonly #parts: QueueParts;
  /** In the order in which they came, by store and file. */
  readonly #waiting = new Map<string, Map<string, QueuedFile>>();
  readonly #running = new Map<string, Run>();
  #closed = false;

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  /** Instead of one that waits for the same place. */
  add(files: readonly QueuedFile[]): void {
    for (const queued of files) {
      const { storeId, fileId } = queued.member;
      const waiting = this.#waiting.get(storeId) ?? new Map<string, QueuedFile>();
      waiting.delete(fileId);
      waiting.set(fileId, queued);
      this.#waiting.set(storeId, waiting);
    }
    this.#startMore();
  }

  /**
   * Takes files of a store out, default: all of them. Settles when none of them is worked on;
   * others that were worked on with them go on later.
   */
  async cancel(storeId: string, fileIds: ReadonlySet<string> | null = null): Promise<void> {
    const waiting = this.#waiting.get(storeId);
    for (const fileId of fileIds ?? [...(waiting?.keys() ?? [])]) waiting?.delete(fileId);
    const run = this.#running.get(storeId);
    if (run === undefined) return;
    const isOurs = ({ member }: QueuedFile) => fileIds?.has(member.fileId) !== false;
    if (!run.files.some(isOurs)) return;
    run.controller.abort(cancelled());
    const wasDone = await run.ended;
    if (fileIds !== null && !wasDone) this.add(run.files.filter((file) => !isOurs(file)));
  }

  /** Ends all work; what is not done stays as it is. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#waiting.clear();
    const running = [...this.#running.values()];
    for (const { controller } of running) controller.abort(cancelled());
    await Promise.all(running.map(({ ended }) => ended));
  }

  #startMore(): void {
    for (const [storeId, waiting] of this.#waiting) {
      if (this.#closed || this.#running.size >= this.#parts.jobs) return;
      if (this.#running.has(storeId)) continue;
      if (waiting.size === 0) this.#waiting.delete(storeId);
      else this.#start(storeId, taken(waiting));
    }
  }

  #start(storeId: string, files: readonly QueuedFile[]): void {
    const controller = new AbortController();
    const ended = this.#run(files, controller.signal).finally(() => {
      this.#running.delete(storeId);
      // Behind the others: no store waits for all files of another one.
      const waiting = this.#waiting.get(storeId);
      if (waiting !== undefined) {
        this.#waiting.delete(storeId);
        this.#waiting.set(storeId, waiting);
      }
      this.#startMore();
    });
    this.#running.set(storeId, { files, controller, ended });
  }

  async #run(files: readonly QueuedFile[], signal: AbortSignal): Promise<boolean> {
    const outcomes = await this.#outcomes(files, signal);
    if (outcomes === null) return false;
    for (const [place, file] of files.entries()) {
      const outcome = outcomes[place] ?? failed("it was left out");
      this.#parts.onDone(file, outcome);
    }
    return true;
  }

  /** Null: cancelled. */
  async #outcomes(
    files: readonly QueuedFile[],
    signal: AbortSignal,
  ): Promise<readonly IngestOutcome[] | null> {
    const [first] = files;
    if (first === undefined) return [];
    const { storeId, attributes, chunking } = first.member;
    const job = { corpus: storeId, attributes, chunking, files: files.map(({ file }) => file) };
    for (let tried = 0; !signal.aborted; tried++) {
      try {
        return await this.#parts.ingest.ingest(job, signal);
      } catch (error) {
        if (signal.aborted) return null;
        const waitMs = RETRY_MS[tried];
        if (waitMs === undefined || !mayPass(error)) return files.map(() => failed(error));
        this.#parts.onRetry(error);
        await sleep(waitMs, signal);
      }
    }
    return null;
  }
}

/** The first file that waits, and those behind it that can be put in with it. */
function taken(waiting: Map<string, QueuedFile>): QueuedFile[] {
  const files: QueuedFile[] = [];
  let bytes = 0;
  let key: string | null = null;
  for (const [fileId, queued] of waiting) {
    const own = keyOf(queued.member);
    key ??= own;
    bytes += queued.file.bytes;
    const isFull = files.length === FILES_AT_ONCE || bytes > BYTES_AT_ONCE;
    if (own !== key || (isFull && files.length > 0)) break;
    files.push(queued);
    waiting.delete(fileId);
  }
  return files;
}

function keyOf({ attributes, chunking }: MemberRecord): string {
  return JSON.stringify([attributes, chunking]);
}

function mayPass(error: unknown): boolean {
  return error instanceof EngineError && ["STORE_UNAVAILABLE", "NETWORK"].includes(error.code);
}

function failed(error: unknown): IngestOutcome {
  return { state: "failed", code: "server_error", message: messageOf(error) };
}

function cancelled(): EngineError {
  return new EngineError("ABORTED", "Cannot go on: the file was taken out, or the server stops");
}

/** Settles after the time, or when the signal is aborted. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
