/** The parent's side of one reading process. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { EngineError } from "#base";
import type { SourceDocument } from "#rag/texts";
import type { FromReader, ReadItem, ReadJob, ToReader } from "./read-messages.ts";
import type { ReadProblem } from "./reader.ts";

/** What a file may cost. */
export interface ReadLimits {
  /** Most time of work on one file. */
  readonly seconds: number;
  /** Most memory of the process, its own code (some 80 MB) included. */
  readonly memoryBytes: number;
}

const MIB = 2 ** 20;
/** Most time of the start of a process, on a busy machine. */
const START_MS = 60_000;

/** Node 20 cannot run TypeScript: from source, the process runs the built file. */
function scriptPath(): string {
  const fromSource = import.meta.url.endsWith(".ts");
  const folder = fromSource ? "../../../dist/rag/readers/" : "./";
  return fileURLToPath(new URL(`${folder}reading-process.js`, import.meta.url));
}

/** Documents and problems of one file, as they come. */
type Content = SourceDocument | ReadProblem;

/** One process, for one file at a time. It is started at the first one, and again after its end. */
export class ReaderProcess {
  readonly #limits: ReadLimits;
  #child: ChildProcess | null = null;
  #isReady = false;

  constructor(limits: ReadLimits) {
    this.#limits = limits;
  }

  /**
   * What a file has. `isWanted` decides by the hash of its bytes; unwanted ones have nothing.
   * Throws INVALID_ARGUMENT or IO where it cannot be read within the limits; the next file can.
   */
  async *read(
    job: ReadJob,
    isWanted: (hash: string, bytes: number) => boolean,
  ): AsyncGenerator<Content> {
    const child = this.#child ?? this.#start();
    const talk = new Talk(child, job, this.#limits);
    const assembly = new Assembly();
    let isDone = false; // and may read another file
    try {
      if (!this.#isReady) await talk.ready();
      this.#isReady = true;
      talk.send({ type: "read", job });
      for (;;) {
        const message = await talk.next();
        if (message.type === "hash")
          talk.send({ type: "go", wanted: isWanted(message.hash, message.bytes) });
        else if (message.type === "items") {
          talk.send({ type: "more" });
          yield* assembly.add(message.items);
        } else {
          // One that holds much memory would be ended within the next file.
          isDone = message.residentBytes * 2 <= this.#limits.memoryBytes;
          if (message.type === "failed") throw new EngineError(message.code, message.message);
          yield* assembly.end();
          return;
        }
      }
    } finally {
      talk.end();
      // A process that was left within a file is of no use for the next one.
      if (!isDone) this.close();
    }
  }

  /** Ends the process at once. */
  close(): void {
    this.#child?.kill("SIGKILL");
    this.#child = null;
    this.#isReady = false;
  }

  #start(): ChildProcess {
    const { memoryBytes } = this.#limits;
    const { SystemRoot } = process.env;
    const child = fork(scriptPath(), [String(memoryBytes), String(process.pid)], {
      serialization: "advanced",
      execArgv: [`--max-old-space-size=${Math.ceil(memoryBytes / MIB)}`],
      stdio: ["ignore", "ignore", "ignore", "ipc"],
      // It needs nothing of the environment, and so it has no secrets of it.
      env: SystemRoot === undefined ? {} : { SystemRoot },
    });
    child.unref();
    child.channel?.unref();
    child.once("exit", () => {
      if (this.#child === child) this.close();
    });
    this.#child = child;
    return child;
  }
}

/** The messages of one file, and the time that it takes. */
class Talk {
  readonly #child: ChildProcess;
  readonly #job: ReadJob;
  readonly #limits: ReadLimits;
  readonly #messages: FromReader[] = [];
  #failure: EngineError | null = null;
  #wake: (() => void) | null = null;
  #workedMs = 0;

  constructor(child: ChildProcess, job: ReadJob, limits: ReadLimits) {
    this.#child = child;
    this.#job = job;
    this.#limits = limits;
    child.on("message", this.#onMessage);
    child.once("exit", this.#onExit);
    child.once("error", this.#onError);
  }

  send(message: ToReader): void {
    this.#child.send(message, (error) => {
      if (error !== null) this.#fail(`its process must be alive, ${error.message}`, "IO");
    });
  }

  /** Waits until the process has started, which does not count as time of a file. */
  async ready(): Promise<void> {
    await this.#take(START_MS, () => this.#fail("its process must start, it did not", "IO"));
  }

  /** The next message; while it is awaited, the process works, and its time is counted. */
  async next(): Promise<Exclude<FromReader, { readonly type: "ready" }>> {
    const { seconds } = this.#limits;
    const since = performance.now();
    const message = await this.#take(seconds * 1000 - this.#workedMs, () =>
      this.#fail(`reading must take at most ${seconds} s (fileSeconds), it took more`),
    );
    this.#workedMs += performance.now() - since;
    return message.type === "ready" ? this.next() : message;
  }

  async #take(ms: number, onTime: () => void): Promise<FromReader> {
    const timeout = setTimeout(onTime, ms);
    try {
      for (;;) {
        const message = this.#messages.shift();
        if (message !== undefined) return message;
        if (this.#failure !== null) throw this.#failure;
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    } finally {
      clearTimeout(timeout);
    }
  }

  end(): void {
    this.#child.off("message", this.#onMessage);
    this.#child.off("exit", this.#onExit);
    this.#child.off("error", this.#onError);
  }

  readonly #onMessage = (message: unknown): void => {
    this.#messages.push(message as FromReader); // of our own script
    this.#wake?.();
  };

  readonly #onExit = (code: number | null, signal: string | null): void => {
    // The heap's own limit ends a process by SIGABRT, or with code 134 of a shell's convention.
    const isMemory = signal === "SIGUSR2" || signal === "SIGABRT" || code === 134;
    const { memoryBytes } = this.#limits;
    const reason = isMemory
      ? `reading must take at most ${memoryBytes} bytes (readerMemoryBytes), it took more`
      : `its process must go on, it ended with ${signal ?? `code ${code}`}`;
    this.#fail(reason, isMemory ? "INVALID_ARGUMENT" : "IO");
  };

  readonly #onError = (error: Error): void => {
    this.#fail(`its process must start, ${error.message}`, "IO");
  };

  #fail(reason: string, code: "INVALID_ARGUMENT" | "IO" = "INVALID_ARGUMENT"): void {
    this.#failure ??= new EngineError(
      code,
      `Cannot read ${JSON.stringify(this.#job.id)}: ${reason}`,
    );
    this.#wake?.();
  }
}

/** Documents whose sections come one by one. */
class Assembly {
  #head: Omit<SourceDocument, "sections"> | null = null;
  #sections: SourceDocument["sections"][number][] = [];

  *add(items: readonly ReadItem[]): Generator<Content> {
    for (const item of items) {
      if ("section" in item) {
        this.#sections.push(item.section);
        continue;
      }
      yield* this.end();
      if ("head" in item) this.#head = item.head;
      else yield item.failure;
    }
  }

  /** The last document, which is whole now. */
  *end(): Generator<Content> {
    if (this.#head !== null) yield { ...this.#head, sections: this.#sections };
    this.#head = null;
    this.#sections = [];
  }
}
