/** Tries grammars in separate processes, so that a harmful one cannot affect other requests. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { EngineError } from "#base";
import type { GrammarOptions } from "../config.ts";
import type { NativeLimits } from "./grammar-library.ts";
import type { TrialAnswer, TrialJob } from "./grammar-process.ts";
import { type GrammarSource, grammarInvalid } from "./grammar-source.ts";
import type { PreparedGrammar } from "./prepared-grammar.ts";

/** A slow grammar delays others by one process only. */
const processesMax = 2;
/** Heap for the translation of a grammar, in MiB: it is linear in a source of limited length. */
const heapMebibytes = 256;
/** Exit codes in native/grammar/src/guard.rs. */
const exitMemory = 77;
const exitTime = 78;

/** Stack of the compiling thread. Its untouched pages cost nothing. */
const stackBytes = 256 * 2 ** 20;

/** The library's limits. Those without a setting only bound the work of a compilation. */
export function nativeLimits(options: GrammarOptions): NativeLimits {
  return {
    bytes: options.memoryBytesMax,
    lexerStates: options.lexerStatesMax,
    symbols: 500_000,
    compileWork: 2_000_000,
    stepWork: options.tokenWorkMax,
    stepItems: options.tokenItemsMax,
    rowItems: options.ambiguityMax,
    stackBytes,
  };
}

/** Node 20 cannot run TypeScript: from source, the process runs the built file. */
function script(): string {
  const fromSource = import.meta.url.endsWith(".ts");
  const path = fromSource
    ? "../../../dist/sampling/grammar/grammar-process.js"
    : "./grammar-process.js";
  return fileURLToPath(new URL(path, import.meta.url));
}

interface Waiting {
  readonly job: TrialJob;
  readonly resolve: (answer: PreparedGrammar) => void;
  readonly reject: (error: EngineError) => void;
}

/** The error for the limit that ended the process. */
function endedBy(code: number | null, { compileMsMax, memoryBytesMax }: TrialJob): EngineError {
  if (code === exitTime) {
    const wanted = `it must compile within ${compileMsMax} ms (grammar.compileMsMax)`;
    return grammarInvalid(`${wanted}, it takes longer; simplify it`);
  }
  if (code === exitMemory) {
    const wanted = `it must fit ${memoryBytesMax} bytes (grammar.memoryBytesMax)`;
    return grammarInvalid(`${wanted}, it takes more; simplify it`);
  }
  return grammarInvalid("it must not crash the grammar library, it does");
}

/** One process and its current job. */
class TrialProcess {
  readonly #child: ChildProcess;
  readonly #onFree: () => void;
  #current: Waiting | null = null;
  #ready = false;
  dead = false;

  constructor(onFree: () => void) {
    this.#onFree = onFree;
    this.#child = fork(script(), [], {
      execArgv: [`--max-old-space-size=${heapMebibytes}`, "--max-semi-space-size=4"],
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      // Memory of a large grammar returns to the system when it is freed.
      env: { MALLOC_MMAP_THRESHOLD_: "131072", MALLOC_TRIM_THRESHOLD_: "131072" },
    });
    this.#child.on("message", (answer: TrialAnswer) => this.#hear(answer));
    this.#child.once("error", (error) => this.#end(null, error));
    this.#child.once("exit", (code) => this.#end(code, null));
    this.#holdProcess(false);
  }

  get idle(): boolean {
    return !this.dead && this.#current === null;
  }

  run(waiting: Waiting): void {
    this.#current = waiting;
    this.#holdProcess(true);
    this.#child.send(waiting.job, (error) => {
      if (error !== null) this.#end(null, error);
    });
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** An idle process does not keep its parent alive. */
  #holdProcess(hold: boolean): void {
    const { channel } = this.#child;
    if (hold) {
      this.#child.ref();
      channel?.ref();
    } else {
      this.#child.unref();
      channel?.unref();
    }
  }

  #hear(answer: TrialAnswer): void {
    if ("ready" in answer) {
      this.#ready = true;
      return;
    }
    const waiting = this.#current;
    this.#current = null;
    this.#holdProcess(false);
    if ("prepared" in answer) waiting?.resolve(answer.prepared);
    else waiting?.reject(refusal(answer.error));
    this.#onFree();
  }

  #end(code: number | null, cause: Error | null): void {
    if (this.dead) return;
    this.dead = true;
    const waiting = this.#current;
    this.#current = null;
    if (waiting !== null) waiting.reject(this.#reason(code, cause, waiting.job));
    this.#onFree();
  }

  #reason(code: number | null, cause: Error | null, job: TrialJob): EngineError {
    if (this.#ready && cause === null) return endedBy(code, job);
    return new EngineError(
      "GRAMMAR_UNAVAILABLE",
      "Cannot compile the grammar: a process that tries it out must start, it ended with " +
        `${cause?.message ?? `code ${code}`}; build Perigee (npm run build)`,
      { cause },
    );
  }
}

/** An EngineError from the library's or the translation's message. */
function refusal(message: string): EngineError {
  const prefix = "Cannot compile the grammar: ";
  return grammarInvalid(message.startsWith(prefix) ? message.slice(prefix.length) : message);
}

/** Translates grammars, and refuses those that cannot be compiled within the limits. */
export class GrammarTrials {
  readonly #options: GrammarOptions;
  readonly #queue: Waiting[] = [];
  #processes: TrialProcess[] = [];

  constructor(options: GrammarOptions) {
    this.#options = options;
  }

  /** Rejects with GRAMMAR_INVALID, or GRAMMAR_UNAVAILABLE where no process can be started. */
  async prepare(source: GrammarSource): Promise<PreparedGrammar> {
    const { whitespaceMax, compileMsMax, memoryBytesMax } = this.#options;
    const limits = nativeLimits(this.#options);
    const job = { source, whitespaceMax, compileMsMax, memoryBytesMax, limits };
    return await new Promise((resolve, reject) => {
      this.#queue.push({ job, resolve, reject });
      this.#startNext();
    });
  }

  #startNext(): void {
    this.#processes = this.#processes.filter(({ dead }) => !dead);
    while (this.#queue.length > 0) {
      const free = this.#processes.find(({ idle }) => idle) ?? this.#another();
      const waiting = free === null ? undefined : this.#queue.shift();
      if (free === null || waiting === undefined) return;
      free.run(waiting);
    }
  }

  #another(): TrialProcess | null {
    if (this.#processes.length >= processesMax) return null;
    const started = new TrialProcess(() => this.#startNext());
    this.#processes.push(started);
    return started;
  }

  /** Ends the processes. Waiting jobs are rejected. */
  dispose(): void {
    const stopped = new EngineError("SHUTTING_DOWN", "Cannot compile a grammar: the model closes");
    for (const { reject } of this.#queue.splice(0)) reject(stopped);
    for (const process of this.#processes) process.kill();
  }
}
