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
  readonly slots?: number;
  readonly slotBytes?: number;
}

/** Enough for some steps of a few reads each. */
const defaultSlots = 16;

/** Enough for the 20 likeliest tokens of 1024 rows. */
const defaultSlotBytes = 96 << 10;

/** A ring of pinned slots. */
export class LateReads {
  readonly #memory: CudaMemory;
  readonly #stream: CudaStream;
  readonly #driver: CudaDriver;
  readonly #region: bigint;
  readonly #slots: readonly Slot[];
  readonly #slotBytes: number;
  #next = 0;

  constructor({ driver, memory, stream, slots, slotBytes }: LateReadOptions) {
    this.#driver = driver;
    this.#memory = memory;
    this.#stream = stream;
    const count = slots ?? defaultSlots;
    const bytes = slotBytes ?? defaultSlotBytes;
    const region = memory.allocateHost(count * bytes, "pinned memory for results");
    this.#region = region;
    this.#slotBytes = bytes;
    const { buffer } = viewOf(region, count * bytes);
    this.#slots = Array.from({ length: count }, (_, i) => {
      const values = new Int32Array(buffer, i * bytes, bytes / 4);
      return new Slot(driver, region + BigInt(i * bytes), values);
    });
  }

  /** Most elements of 4 bytes in one read. */
  get elementsMax(): number {
    return this.#slotBytes / 4;
  }

  /**
   * Enqueues the copy of `count` elements of 4 bytes. Waits only when all slots are in use, for the
   * oldest of them.
   */
  read(from: bigint, count: number): LateRead {
    assert(!this.#stream.capturing, "Cannot read from inside a graph: read after its launch");
    assert(count <= this.elementsMax, `Cannot read ${count} elements late: too many`);
    // The ring is never empty, and #next stays inside it.
    const slot = this.#slots[this.#next] as Slot;
    this.#next = (this.#next + 1) % this.#slots.length;
    slot.vacate();
    const read = new SlotRead(slot, count);
    this.#driver.run("cuMemcpyDtoHAsync", slot.address, from, count * 4, this.#stream.handle);
    slot.occupy(read, this.#stream);
    return read;
  }

  dispose(): void {
    for (const slot of this.#slots) slot.done.destroy();
    this.#memory.release(this.#region);
  }
}

/** Pinned memory of one result. */
class Slot {
  readonly address: bigint;
  readonly values: Int32Array;
  /** Recorded behind the copy into it. */
  readonly done: CudaEvent;
  /** The read whose result is in the slot; null when the result was taken. */
  #reader: SlotRead | null = null;

  constructor(driver: CudaDriver, address: bigint, values: Int32Array) {
    this.address = address;
    this.values = values;
    this.done = new CudaEvent(driver);
  }

  occupy(reader: SlotRead, stream: CudaStream): void {
    this.done.record(stream);
    this.#reader = reader;
  }

  /** Copies an untaken result out of the slot. */
  vacate(): void {
    this.#reader?.fetch();
    this.#reader = null;
  }

  release(reader: SlotRead): void {
    if (this.#reader === reader) this.#reader = null;
  }
}

class SlotRead implements LateRead {
  readonly #slot: Slot;
  readonly #count: number;
  #found: Int32Array | null = null;

  constructor(slot: Slot, count: number) {
    this.#slot = slot;
    this.#count = count;
  }

  async take(): Promise<Int32Array> {
    const found = this.fetch();
    this.#slot.release(this);
    return found;
  }

  /** Blocks this thread until the copy is done. */
  fetch(): Int32Array {
    if (this.#found === null) {
      this.#slot.done.wait();
      this.#found = this.#slot.values.slice(0, this.#count);
    }
    return this.#found;
  }
}
