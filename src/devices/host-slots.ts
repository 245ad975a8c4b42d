/** Slots of host memory on devices whose ops run at once, in the memory of the host. */
import { assert } from "#base";
import type { HostSlots, SlotDirection } from "./device.ts";

/** Slots that are plain memory. */
export class MappedSlots implements HostSlots {
  readonly direction: SlotDirection;
  readonly bytesPerSlot: number;
  readonly #memory: readonly Uint8Array[];

  constructor(memory: readonly Uint8Array[], direction: SlotDirection) {
    this.#memory = memory;
    this.direction = direction;
    this.bytesPerSlot = bytesPerSlot(memory);
  }

  get slots(): number {
    return this.#memory.length;
  }

  /** The first bytes of a slot. */
  slot(index: number, bytes: number): Uint8Array {
    return slotOf(this.#memory, index, bytes);
  }
}

/** The slots behind a handle, which go this way. */
export function mappedSlots(handle: HostSlots, direction: SlotDirection): MappedSlots {
  assert(handle instanceof MappedSlots, "Cannot use another device's slots");
  checkDirection(handle, direction);
  return handle;
}

export function checkDirection(slots: HostSlots, wanted: SlotDirection): void {
  const { direction } = slots;
  assert(direction === wanted, `Cannot pass a tensor ${wanted} by slots that go ${direction}`);
}

/** Of all of them, which are equally large. */
export function bytesPerSlot(memory: readonly Uint8Array[]): number {
  const bytes = memory[0]?.byteLength ?? 0;
  const same = memory.every(({ byteLength }) => byteLength === bytes);
  assert(bytes > 0 && same, "Cannot use slots of host memory: some of one size wanted");
  return bytes;
}

/** The first bytes of a slot: no memory is touched that is not of it. */
export function slotOf(memory: readonly Uint8Array[], index: number, bytes: number): Uint8Array {
  const slot = memory[index];
  assert(slot !== undefined, `Cannot use slot ${index} of ${memory.length}`);
  assert(bytes <= slot.length, `Cannot use ${bytes} bytes of a slot of ${slot.length}`);
  return slot.subarray(0, bytes);
}
