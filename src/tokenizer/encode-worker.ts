import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { assert, EngineError } from "#base";
import type { TokenizerFiles } from "./tokenizer-files.ts";

/** What the worker is asked. */
export interface EncodeJob {
  readonly id: number;
  readonly text: string;
  readonly addSpecialTokens: boolean;
}

/** What it answers. */
export interface EncodeAnswer {
  readonly id: number;
  readonly ids: Int32Array;
}

interface Waiting {
  readonly resolve: (ids: number[]) => void;
  readonly reject: (error: EngineError) => void;
}

/** Built code only: Node 20 cannot start a thread from a .ts file. */
const script = new URL("./tokenizer-worker.js", import.meta.url);

/**
 * One thread that encodes long texts, started by the first of them. It does not keep the process
 * alive while it has nothing to do.
 */
export class EncodeWorker {
  /** False when running from source: texts are then encoded on the calling thread. */
  static readonly available: boolean = existsSync(fileURLToPath(script));

  readonly #files: TokenizerFiles;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | null = null;
  #nextId = 0;

  constructor(files: TokenizerFiles) {
    this.#files = files;
  }

  /** Token ids of `text`. Rejects with ENGINE_DEAD when the thread ends. */
  encode(text: string, addSpecialTokens: boolean): Promise<number[]> {
    this.#worker ??= this.#start();
    const worker = this.#worker;
    const job: EncodeJob = { id: this.#nextId++, text, addSpecialTokens };
    return new Promise((resolve, reject) => {
      this.#waiting.set(job.id, { resolve, reject });
      worker.ref();
      worker.postMessage(job);
    });
  }

  #start(): Worker {
    // Flags of the process (--input-type, --conditions) are not meant for this script.
    const worker = new Worker(script, { workerData: this.#files, execArgv: [] });
    worker.unref();
    worker.on("message", (answer: EncodeAnswer) => this.#settle(answer));
    worker.on("error", (error) => this.#fail(worker, error));
    worker.on("exit", () => this.#fail(worker, new Error("the thread ended")));
    return worker;
  }

  #settle(answer: EncodeAnswer): void {
    const waiting = this.#waiting.get(answer.id);
    assert(waiting !== undefined, `Cannot settle encoding ${answer.id}: nobody waits for it`);
    this.#waiting.delete(answer.id);
    if (this.#waiting.size === 0) this.#worker?.unref();
    waiting.resolve(Array.from(answer.ids));
  }

  #fail(worker: Worker, cause: Error): void {
    if (this.#worker !== worker) return;
    this.#worker = null;
    const message = `Cannot encode: the tokenizer's thread must be alive, ${cause.message}`;
    for (const { reject } of this.#waiting.values()) {
      reject(new EngineError("ENGINE_DEAD", message, { cause }));
    }
    this.#waiting.clear();
  }

  /** Ends the thread; encodings under way are rejected. The next `encode` starts a new one. */
  async stop(): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return;
    this.#fail(worker, new Error("the tokenizer was closed"));
    await worker.terminate();
  }
}
