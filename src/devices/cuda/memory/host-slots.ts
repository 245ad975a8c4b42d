/**
 * Slots of host memory that another process maps, too, and copies between them and the device: on a
 * stream of their own, by way of room on the device, so that ops run meanwhile.
 *
 *   out   ops ──► tensor ─(ops' stream)─► room ─(own stream)─► slot
 *   in    slot ─(own stream)─► room ─(ops' stream)─► tensor ──► ops
 *
 * The copy inside the device takes a fraction of the other one's time, and lets the tensor be used
 * for the next step at once. There is room for two copies: while one waits for the ops, the other
 * one is on its way.
 */
import { assert } from "#base";
import { addressOf, type CudaDriver, CudaEvent, CudaStream } from "#devices/cuda/driver";
import type { HostSlots, MovesMark, SlotDirection } from "../../device.ts";
import { bytesPerSlot, checkDirection, slotOf } from "../../host-slots.ts";
import type { CudaTensor } from "./handles.ts";
import { StreamsMark } from "./mark.ts";
import type { CudaMemory } from "./memory.ts";

/** Pinned memory that every context of the process may use. */
const portable = 1;

const roomCount = 2;

export interface HostSlotsOptions {
  readonly driver: CudaDriver;
  readonly memory: CudaMemory;
  /** The ops' stream. */
  readonly stream: CudaStream;
  /** Receives one line where the memory cannot be pinned: copies are slow then. */
  readonly warn?: (message: string) => void;
}

/** Room on the device for one tensor under way. */
interface Room {
  readonly address: bigint;
  /** Recorded where the room was filled, in the stream that fills it. */
  readonly filled: CudaEvent;
  /** Recorded where it was read, in the stream that reads it. */
  readonly read: CudaEvent;
}

export class CudaHostSlots implements HostSlots {
  readonly direction: SlotDirection;
  readonly bytesPerSlot: number;
  readonly #options: HostSlotsOptions;
  readonly #slots: readonly Uint8Array[];
  readonly #stream: CudaStream;
  readonly #rooms: readonly Room[];
  readonly #pinned: readonly bigint[];
  #next = 0;

  /** Throws OUT_OF_MEMORY. */
  constructor(options: HostSlotsOptions, slots: readonly Uint8Array[], direction: SlotDirection) {
    const { driver, memory, stream } = options;
    this.#options = options;
    this.#slots = slots;
    this.direction = direction;
    this.bytesPerSlot = bytesPerSlot(slots);
    this.#rooms = Array.from({ length: roomCount }, () => ({
      address: memory.allocate(this.bytesPerSlot, "room for hidden states under way"),
      filled: new CudaEvent(driver),
      read: new CudaEvent(driver),
    }));
    // The ops' stream fills new memory.
    for (const { read } of this.#rooms) read.record(stream);
    this.#stream = new CudaStream(driver);
    this.#pinned = this.#pin();
  }

  get slots(): number {
    return this.#slots.length;
  }

  put(slot: number, tensor: CudaTensor): MovesMark {
    checkDirection(this, "out");
    const { driver, stream } = this.#options;
    const { address: to, bytes } = this.#place(slot, tensor);
    const { address, filled, read } = this.#room();
    stream.waitFor(read);
    driver.run("cuMemcpyDtoDAsync", address, tensor.address, bytes, stream.handle);
    filled.record(stream);
    this.#stream.waitFor(filled);
    driver.run("cuMemcpyDtoHAsync", to, address, bytes, this.#stream.handle);
    read.record(this.#stream);
    return new StreamsMark(driver, [this.#stream]);
  }

  take(slot: number, tensor: CudaTensor): MovesMark {
    checkDirection(this, "in");
    const { driver, stream } = this.#options;
    const { address: from, bytes } = this.#place(slot, tensor);
    const { address, filled, read } = this.#room();
    this.#stream.waitFor(read);
    driver.run("cuMemcpyHtoDAsync", address, from, bytes, this.#stream.handle);
    filled.record(this.#stream);
    const mark = new StreamsMark(driver, [this.#stream]);
    stream.waitFor(filled);
    driver.run("cuMemcpyDtoDAsync", tensor.address, address, bytes, stream.handle);
    read.record(stream);
    return mark;
  }

  /** Waits for the copies. */
  synchronize(): void {
    this.#stream.synchronize();
  }

  dispose(): void {
    const { driver, memory } = this.#options;
    this.#stream.synchronize();
    for (const { address, filled, read } of this.#rooms) {
      // Waits for the ops, too, which read and fill it.
      memory.release(address);
      filled.destroy();
      read.destroy();
    }
    this.#stream.destroy();
    for (const address of this.#pinned) driver.run("cuMemHostUnregister", address);
  }

  /** The slot's memory, and the tensor's bytes, which fit. */
  #place(slot: number, tensor: CudaTensor): { readonly address: bigint; readonly bytes: number } {
    assert(!this.#options.stream.capturing, "Cannot pass a tensor from inside a graph");
    const { bytes } = tensor;
    return { address: placeOf(slotOf(this.#slots, slot, bytes)), bytes };
  }

  #room(): Room {
    // There are rooms, and #next stays among them.
    const room = this.#rooms[this.#next] as Room;
    this.#next = (this.#next + 1) % this.#rooms.length;
    return room;
  }

  /** Memory that is not pinned is copied by way of the driver's own, while the host waits. */
  #pin(): bigint[] {
    const { driver, warn } = this.#options;
    const pinned: bigint[] = [];
    for (const slot of this.#slots) {
      const address = placeOf(slot);
      const status = driver.calls.cuMemHostRegister(address, slot.length, portable);
      if (status === 0) pinned.push(address);
    }
    if (pinned.length < this.#slots.length) {
      const count = this.#slots.length - pinned.length;
      warn?.(
        `${count} slots of ${this.bytesPerSlot} bytes for hidden states cannot be pinned: copies ` +
          "wait for the GPU; raise the limit of locked memory (ulimit -l)",
      );
    }
    return pinned;
  }
}

function placeOf({ buffer, byteOffset }: Uint8Array): bigint {
  // Nothing here is shared between threads.
  return addressOf(buffer as ArrayBuffer) + BigInt(byteOffset);
}
