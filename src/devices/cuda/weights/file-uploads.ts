/** Uploads of parts of files, read by several threads into pinned memory. */
import { closeSync, openSync } from "node:fs";
import { availableParallelism } from "node:os";
import { EngineError } from "#base";
import { type CudaDriver, CudaEvent, type CudaStream } from "#devices/cuda/driver";
import type { CudaMemory } from "#devices/cuda/memory";
import { canReadOnThreads, type ReadEnd, ReadPool, type ReadPoolOptions } from "./read-pool.ts";

/** Options of uploads. */
export interface FileUploadOptions {
  readonly driver: CudaDriver;
  readonly memory: CudaMemory;
  readonly stream: CudaStream;
  /** Receives a warning of memory that is left to a hanging read. */
  readonly warn?: ((message: string) => void) | undefined;
  /** Starts the reading threads; replaced in tests. */
  readonly startPool?: (options: ReadPoolOptions) => ReadPool;
}

/** Bytes of a file, from `start` on. */
export interface FilePart {
  readonly path: string;
  readonly start: number;
  readonly bytes: number;
}

/** One read: so long that the cost of requesting it is negligible. */
const cellBytes = 4 << 20;
/** While one cell of a thread is copied to the device, the thread fills the other. */
const cellsPerThread = 2;
const threadsMax = 6;

/** Below this, waking the threads costs more than they save. */
const fileBytesMin = 2 << 20;

/** A pool of threads, and the cells that it fills. */
interface Readers {
  readonly pool: ReadPool;
  readonly addresses: readonly bigint[];
  /** Recorded behind the last copy out of each cell. */
  readonly copied: readonly CudaEvent[];
}

/** Threads and pinned memory exist from the first long upload until `close`. */
export class FileUploads {
  readonly #options: FileUploadOptions;
  #readers: Readers | null = null;
  /** The next cell to request. */
  #next = 0;

  constructor(options: FileUploadOptions) {
    this.#options = options;
  }

  /** Whether this many bytes should be uploaded here; else the caller reads them itself. */
  suits(bytes: number): boolean {
    return bytes >= fileBytesMin && canReadOnThreads();
  }

  /**
   * Enqueues copies of a file's bytes to the device. The file may change when this returns. Throws
   * CHECKPOINT_INVALID where it ends too early, and IO where it cannot be read, or not in time.
   */
  upload(to: bigint, part: FilePart): void {
    this.#readers ??= this.#start();
    const descriptor = openSync(part.path, "r");
    try {
      this.#transfer(this.#readers, to, { ...part, descriptor });
    } finally {
      // A hanging read would continue on another file that reuses the descriptor.
      if (this.#readers !== null) closeSync(descriptor);
    }
  }

  /** Ends the threads and releases the pinned memory. A later upload starts them again. */
  close(): void {
    const readers = this.#readers;
    this.#readers = null;
    if (readers === null) return;
    const { memory, warn } = this.#options;
    const busy = readers.pool.close();
    for (const event of readers.copied) event.wait();
    for (const event of readers.copied) event.destroy();
    for (const [cell, address] of readers.addresses.entries()) {
      if (busy.has(cell)) memory.abandon(address);
      else memory.release(address);
    }
    if (busy.size > 0) {
      warn?.(
        `${busy.size * cellBytes} bytes of pinned memory stay with file reads that did not ` +
          "end; they are freed when this process ends",
      );
    }
  }

  #transfer(readers: Readers, to: bigint, part: FilePart & { readonly descriptor: number }): void {
    const { pool, copied } = readers;
    const count = Math.ceil(part.bytes / cellBytes);
    const first = this.#next;
    const cellOf = (index: number): number => (first + index) % copied.length;
    const rangeOf = (index: number) => ({
      descriptor: part.descriptor,
      start: part.start + index * cellBytes,
      bytes: Math.min(cellBytes, part.bytes - index * cellBytes),
    });
    let asked = 0;
    let ended = 0;
    try {
      for (let index = 0; index < count; index++) {
        for (; asked < count && asked < index + copied.length; asked++) {
          copied[cellOf(asked)]?.wait();
          pool.ask(cellOf(asked), rangeOf(asked));
        }
        const end = pool.wait(cellOf(ended++));
        // The others read the same file, and each would wait as long.
        if (end === "hung") this.close();
        if (end !== "read") throw readProblem(part.path, end);
        const bytes = rangeOf(index).bytes;
        this.#copy(readers, cellOf(index), { to: to + BigInt(index * cellBytes), bytes });
      }
    } finally {
      // After a failure requested reads still complete: the file is closed after this, and the
      // cells are requested again.
      for (; ended < asked && this.#readers !== null; ended++) {
        if (pool.wait(cellOf(ended)) === "hung") this.close();
      }
      this.#next = cellOf(asked);
    }
  }

  #copy(
    { addresses, copied }: Readers,
    cell: number,
    { to, bytes }: { readonly to: bigint; readonly bytes: number },
  ): void {
    const { driver, stream } = this.#options;
    driver.run("cuMemcpyHtoDAsync", to, addresses[cell] ?? 0n, bytes, stream.handle);
    copied[cell]?.record(stream);
  }

  #start(): Readers {
    const { driver, memory } = this.#options;
    const threads = Math.max(1, Math.min(threadsMax, availableParallelism()));
    const addresses = Array.from({ length: threads * cellsPerThread }, () =>
      memory.allocateHost(cellBytes, "pinned memory for reading files"),
    );
    const copied = addresses.map(() => new CudaEvent(driver));
    this.#next = 0;
    const { startPool = (options: ReadPoolOptions) => new ReadPool(options) } = this.#options;
    return { pool: startPool({ addresses, cellBytes, threads }), addresses, copied };
  }
}

function readProblem(path: string, end: Exclude<ReadEnd, "read">): EngineError {
  if (end === "failed") return new EngineError("IO", `Cannot read ${path}: the system refused it`);
  if (end === "hung") {
    return new EngineError("IO", `Cannot read ${path}: its disk does not answer any more`);
  }
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot read ${path}: it became shorter while it was open; download it again`,
  );
}
