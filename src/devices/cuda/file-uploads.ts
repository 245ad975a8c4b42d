/** Stretches of files to the device, read by several threads into pinned memory. */
import { closeSync, openSync } from "node:fs";
import { availableParallelism } from "node:os";
import { EngineError } from "#base";
import type { CudaDriver } from "./driver.ts";
import { CudaEvent } from "./event.ts";
import type { CudaMemory } from "./memory.ts";
import { canReadOnThreads, ReadPool } from "./read-pool.ts";
import type { CudaStream } from "./stream.ts";

/** What uploads work with. */
export interface FileUploadOptions {
  readonly driver: CudaDriver;
  readonly memory: CudaMemory;
  readonly stream: CudaStream;
}

/** Bytes of a file, from `start` on. */
export interface FilePart {
  readonly path: string;
  readonly start: number;
  readonly bytes: number;
}

/** One read: long enough that asking for it costs nothing beside it. */
const slotBytes = 4 << 20;
/** While one slot of a thread is copied to the device, the thread fills the other. */
const slotsPerThread = 2;
const threadsMax = 6;

/** Below this, waking the threads costs more than they save. */
const fileBytesMin = 2 << 20;

/** A pool of threads, and the slots that it fills. */
interface Readers {
  readonly pool: ReadPool;
  readonly addresses: readonly bigint[];
  /** Recorded behind the last copy out of each slot. */
  readonly copied: readonly CudaEvent[];
}

/** Threads and pinned memory are there from the first long upload until `close`. */
export class FileUploads {
  readonly #options: FileUploadOptions;
  #readers: Readers | null = null;
  /** The slot that is asked for next. */
  #next = 0;

  constructor(options: FileUploadOptions) {
    this.#options = options;
  }

  /** Whether this is the way for so many bytes; else the caller reads them itself. */
  suits(bytes: number): boolean {
    return bytes >= fileBytesMin && canReadOnThreads();
  }

  /**
   * Enqueues copies of a file's bytes to the device. The file may change when this returns. Throws
   * CHECKPOINT_INVALID where it ends too early, and IO where it cannot be read.
   */
  upload(to: bigint, part: FilePart): void {
    this.#readers ??= this.#start();
    const descriptor = openSync(part.path, "r");
    try {
      this.#transfer(this.#readers, to, { ...part, descriptor });
    } finally {
      closeSync(descriptor);
    }
  }

  /** Ends the threads and gives the pinned memory back. A later upload begins anew. */
  close(): void {
    const readers = this.#readers;
    this.#readers = null;
    if (readers === null) return;
    readers.pool.close();
    for (const event of readers.copied) event.wait();
    for (const event of readers.copied) event.destroy();
    for (const address of readers.addresses) this.#options.memory.release(address);
  }

  #transfer(readers: Readers, to: bigint, part: FilePart & { readonly descriptor: number }): void {
    const { pool, copied } = readers;
    const count = Math.ceil(part.bytes / slotBytes);
    const first = this.#next;
    const slotOf = (index: number): number => (first + index) % copied.length;
    const stretchOf = (index: number) => ({
      descriptor: part.descriptor,
      start: part.start + index * slotBytes,
      bytes: Math.min(slotBytes, part.bytes - index * slotBytes),
    });
    let asked = 0;
    let problem: EngineError | null = null;
    for (let done = 0; done < count; done++) {
      for (; asked < count && asked < done + copied.length && problem === null; asked++) {
        copied[slotOf(asked)]?.wait();
        pool.ask(slotOf(asked), stretchOf(asked));
      }
      // After a failure what was asked for still comes in.
      if (done >= asked) break;
      const end = pool.wait(slotOf(done));
      if (end !== "read") problem ??= readProblem(part.path, end);
      if (problem !== null) continue;
      const bytes = stretchOf(done).bytes;
      this.#copy(readers, slotOf(done), { to: to + BigInt(done * slotBytes), bytes });
    }
    this.#next = slotOf(asked);
    if (problem !== null) throw problem;
  }

  #copy(
    { addresses, copied }: Readers,
    slot: number,
    { to, bytes }: { readonly to: bigint; readonly bytes: number },
  ): void {
    const { driver, stream } = this.#options;
    driver.run("cuMemcpyHtoDAsync", to, addresses[slot] ?? 0n, bytes, stream.handle);
    copied[slot]?.record(stream);
  }

  #start(): Readers {
    const { driver, memory } = this.#options;
    const threads = Math.max(1, Math.min(threadsMax, availableParallelism()));
    const addresses = Array.from({ length: threads * slotsPerThread }, () =>
      memory.allocateHost(slotBytes, "room for files that are read"),
    );
    const copied = addresses.map(() => new CudaEvent(driver));
    this.#next = 0;
    return { pool: new ReadPool({ addresses, slotBytes, threads }), addresses, copied };
  }
}

function readProblem(path: string, end: "tooShort" | "failed"): EngineError {
  if (end === "failed") return new EngineError("IO", `Cannot read ${path}: the system refused it`);
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot read ${path}: it became shorter while it was open; download it again`,
  );
}
