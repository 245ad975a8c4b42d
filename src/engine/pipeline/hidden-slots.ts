/**
 * Hidden states on their way from one stage to the next: memory without a name that both map, whose
 * descriptor the next stage inherits. Devices copy to it and from it directly, and no thread of
 * either side moves a byte. Where memory cannot be mapped it is a file, written and read.
 */
import { randomBytes } from "node:crypto";
import { closeSync, openSync, readSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assert, EngineError, messageOf } from "#base";
import { createInherited, type InheritedMemory, mapInherited } from "#transfer";

/** In memory, which containers may have little of there; then wherever temporary files are. */
const FOLDERS: readonly string[] = ["/dev/shm", tmpdir()];
const NAME_BYTES = 16;
const NOTHING = new Uint8Array(1 << 20);
/** Slots begin at multiples of this, and so of a page: each is pinned by itself. */
const ALIGNMENT_BYTES = 65_536;
/** The largest view of mapped memory. */
export const SLOT_BYTES_MAX = 2 ** 32 - ALIGNMENT_BYTES;

/** How many steps may be on their way, and the bytes of the largest one's hidden states. */
export interface SlotSizes {
  readonly slots: number;
  readonly bytesPerSlot: number;
}

/** Where they are; for tests. */
export interface SlotPlaces {
  /** Whether memory is mapped where that can be. */
  readonly maps: boolean;
  /** Of the file, where it is not. */
  readonly folders: readonly string[];
}

const PLACES: SlotPlaces = { maps: true, folders: FOLDERS };

/** The slots of one pair of stages. */
export class HiddenSlots {
  readonly fd: number;
  /** Of each slot. */
  readonly memory: readonly Uint8Array[];
  readonly #sizes: SlotSizes;
  readonly #mapped: InheritedMemory | null;
  #release: (() => void)[] = [];

  private constructor(fd: number, sizes: SlotSizes, mapped: InheritedMemory | null) {
    const { slots, bytesPerSlot } = sizes;
    this.fd = fd;
    this.#sizes = sizes;
    this.#mapped = mapped;
    this.memory = Array.from({ length: slots }, (_, slot) =>
      mapped === null
        ? new Uint8Array(bytesPerSlot)
        : mapped.view(slot * strideOf(sizes), bytesPerSlot),
    );
  }

  /**
   * Takes all of the room at once: memory, else a file in the first of the folders that has it.
   * Throws OUT_OF_MEMORY where none has.
   */
  static create(sizes: SlotSizes, { maps, folders }: SlotPlaces = PLACES): HiddenSlots {
    const bytes = totalOf(sizes);
    let problem: unknown = null;
    try {
      const mapped = maps ? reservedMemory(bytes) : null;
      if (mapped !== null) return new HiddenSlots(mapped.fd, sizes, mapped);
    } catch (error) {
      problem = error;
    }
    for (const folder of folders) {
      try {
        return new HiddenSlots(reserved(folder, bytes), sizes, null);
      } catch (error) {
        problem = error;
      }
    }
    const why = `${bytes} bytes in ${folders.join(" or ")} are wanted, ${messageOf(problem)}`;
    throw failed(why, problem);
  }

  /** Those of the stage before, by the descriptor of its `create`. */
  static inherit(fd: number, sizes: SlotSizes, { maps } = PLACES): HiddenSlots {
    return new HiddenSlots(fd, sizes, maps ? mapInherited(fd, totalOf(sizes)) : null);
  }

  /** The other side sees the first bytes of a slot; where it is mapped, it does already. */
  show(slot: number, bytes: number): void {
    const part = this.#partOf(slot, bytes);
    if (this.#mapped !== null) return;
    try {
      for (let done = 0; done < bytes; ) {
        done += writeSync(this.fd, part, done, bytes - done, this.#startOf(slot) + done);
      }
    } catch (cause) {
      throw failed(`${bytes} bytes do not fit, ${messageOf(cause)}`, cause);
    }
  }

  /** Sees what the other side has shown. */
  look(slot: number, bytes: number): void {
    const part = this.#partOf(slot, bytes);
    if (this.#mapped !== null) return;
    for (let done = 0; done < bytes; ) {
      const read = readSync(this.fd, part, done, bytes - done, this.#startOf(slot) + done);
      if (read === 0) throw failed(`${bytes - done} bytes of slot ${slot} are missing`);
      done += read;
    }
  }

  /** `release` lets go of the memory; it is called before that ends. */
  beforeClose(release: () => void): void {
    this.#release.push(release);
  }

  close(): void {
    for (const release of this.#release.splice(0)) release();
    if (this.#mapped === null) closeSync(this.fd);
    else this.#mapped.release();
  }

  #partOf(slot: number, bytes: number): Uint8Array {
    const memory = this.memory[slot];
    assert(memory !== undefined, `Cannot use slot ${slot} of ${this.#sizes.slots}`);
    assert(bytes <= memory.length, `Cannot use ${bytes} bytes of a slot of ${memory.length}`);
    return memory.subarray(0, bytes);
  }

  #startOf(slot: number): number {
    return slot * strideOf(this.#sizes);
  }
}

/** From one slot to the next. */
function strideOf({ bytesPerSlot }: SlotSizes): number {
  return Math.ceil(bytesPerSlot / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
}

function totalOf(sizes: SlotSizes): number {
  return sizes.slots * strideOf(sizes);
}

/** Memory that is there already; null: it cannot be mapped here. */
function reservedMemory(bytes: number): InheritedMemory | null {
  const memory = createInherited(bytes);
  if (memory === null) return null;
  try {
    take(memory.fd, bytes);
    return memory;
  } catch (error) {
    memory.release();
    throw error;
  }
}

/** A file without a name of so many bytes, which are there already. */
function reserved(folder: string, bytes: number): number {
  const path = join(folder, `perigee-${randomBytes(NAME_BYTES).toString("hex")}`);
  const fd = openSync(path, "wx+", 0o600);
  try {
    unlinkSync(path);
    take(fd, bytes);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Writes to all of it: a system without the memory says so now, and does not end the process. */
function take(fd: number, bytes: number): void {
  for (let at = 0; at < bytes; ) {
    at += writeSync(fd, NOTHING, 0, Math.min(NOTHING.length, bytes - at), at);
  }
}

function failed(why: string, cause?: unknown): EngineError {
  const message =
    `Cannot pass hidden states to the next pipeline stage: ${why}; make room ` +
    "there, or lower pipeline.chunkTokens";
  return new EngineError("OUT_OF_MEMORY", message, { cause });
}
