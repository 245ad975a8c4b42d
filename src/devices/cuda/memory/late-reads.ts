/** Copies to the host that are waited for one by one, while more work is enqueued behind them. */
import { assert } from "#base";
import { type CudaDriver, CudaEvent, type CudaStream, viewOf } from "#devices/cuda/driver";
import type { LateRead } from "../../device.ts";
import type { CudaMemory } from "./memory.ts";

/** Options of late reads. */
export interface LateReadOptions {
  readonly driver: CudaDriver;
  readonly memory: CudaMemory;
  readonly stream: CudaStream;
  /** Most copies that are under way at once. */
  readonly cells?: number;
  readonly cellBytes?: number;
}

/** Enough for some steps of a few reads each. */
const defaultCells = 16;

/** Enough for the 20 likeliest tokens of 1024 rows. */
const defaultCellBytes = 96 << 10;

/** A ring of pinned cells. */
export class LateReads {
  readonly #memory: CudaMemory;
  readonly #stream: CudaStream;
  readonly #driver: CudaDriver;
  readonly #region: bigint;
  readonly #cells: readonly Cell[];
  readonly #cellBytes: number;
  #next = 0;

  constructor({ driver, memory, stream, cells, cellBytes }: LateReadOptions) {
    this.#driver = driver;
    this.#memory = memory;
    this.#stream = stream;
    const count = cells ?? defaultCells;
    const bytes = cellBytes ?? defaultCellBytes;
    const region = memory.allocateHost(count * bytes, "pinned memory for results");
    this.#region = region;
    this.#cellBytes = bytes;
    const { buffer } = viewOf(region, count * bytes);
    this.#cells = Array.from({ length: count }, (_, i) => {
      const values = new Int32Array(buffer, i * bytes, bytes / 4);
      return new Cell(driver, region + BigInt(i * bytes), values);
    });
  }

  /** Most elements of 4 bytes in one read. */
  get elementsMax(): number {
    return this.#cellBytes / 4;
  }

  /**
   * Enqueues the copy of `count` elements of 4 bytes. Waits only when all cells are in use, for the
   * oldest of them.
   */
  read(from: bigint, count: number): LateRead {
    assert(!this.#stream.capturing, "Cannot read from inside a graph: read after its launch");
    assert(count <= this.elementsMax, `Cannot read ${count} elements late: too many`);
    // The ring is never empty, and #next stays inside it.
    const cell = this.#cells[this.#next] as Cell;
    this.#next = (this.#next + 1) % this.#cells.length;
    cell.vacate();
    const read = new CellRead(cell, count);
    this.#driver.run("cuMemcpyDtoHAsync", cell.address, from, count * 4, this.#stream.handle);
    cell.occupy(read, this.#stream);
    return read;
  }

  dispose(): void {
    for (const cell of this.#cells) cell.done.destroy();
    this.#memory.release(this.#region);
  }
}

/** Pinned memory of one result. */
class Cell {
  readonly address: bigint;
  readonly values: Int32Array;
  /** Recorded behind the copy into it. */
  readonly done: CudaEvent;
  /** The read whose result is in the cell; null when the result was taken. */
  #reader: CellRead | null = null;

  constructor(driver: CudaDriver, address: bigint, values: Int32Array) {
    this.address = address;
    this.values = values;
    this.done = new CudaEvent(driver);
  }

  occupy(reader: CellRead, stream: CudaStream): void {
    this.done.record(stream);
    this.#reader = reader;
  }

  /** Copies an untaken result out of the cell. */
  vacate(): void {
    this.#reader?.fetch();
    this.#reader = null;
  }

  release(reader: CellRead): void {
    if (this.#reader === reader) this.#reader = null;
  }
}

class CellRead implements LateRead {
  readonly #cell: Cell;
  readonly #count: number;
  #found: Int32Array | null = null;

  constructor(cell: Cell, count: number) {
    this.#cell = cell;
    this.#count = count;
  }

  async take(): Promise<Int32Array> {
    const found = this.fetch();
    this.#cell.release(this);
    return found;
  }

  /** Blocks this thread until the copy is done. */
  fetch(): Int32Array {
    if (this.#found === null) {
      this.#cell.done.wait();
      this.#found = this.#cell.values.slice(0, this.#count);
    }
    return this.#found;
  }
}
